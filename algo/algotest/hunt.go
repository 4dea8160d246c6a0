package algotest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// seed of every search.
const seed = 1

// A law is a sentence and the judge who knows how to break it at one point.
type law struct {
	number   int
	name     string
	sentence string
	judge    func(*point)

	verbs    []op // what histories are made of, besides steps
	skewed   bool // clocks step back
	switches bool // the limit changes on the way
	also     func(*hunt) *finding
}

// effort is how long the searches are.
type effort struct {
	limits    int // every so many-th of the small limits is taken
	layer     int // states kept at each depth
	tries     int // events tried from each state
	readings  int // readings of the clock at which each state is judged
	depth     int // events in a row
	histories int // random histories
	length    int // events in each
}

var (
	thorough = effort{limits: 1, layer: 40, tries: 40, readings: 8, depth: 3, histories: 400, length: 12}
	brief    = effort{limits: 5, layer: 20, tries: 24, readings: 6, depth: 3, histories: 100, length: 12}
)

// complete is the product of count and period up to which every event from every
// state is tried and judged.
const complete = 8

func (e effort) within(l algo.Limit) effort {
	if e.limits == 1 && l.Count*int64(l.Period) <= complete {
		e.layer, e.tries, e.readings = 4000, 4000, 4000
	}
	return e
}

// A hunt is the search for a point at which a law does not hold.
type hunt struct {
	law     law
	subject Subject
	effort  effort
	random  *rand.Rand
	tried   int
	refused int
	refusal error
}

// A finding is such a point.
type finding struct {
	past  *node
	limit algo.Limit
	now   int64
	fault fault
}

// hold reports where the subject breaks the law, if anywhere.
func (l law) hold(t testing.TB, s Subject) {
	t.Helper()
	h := &hunt{law: l, subject: s, effort: s.effort, random: rand.New(rand.NewPCG(seed, uint64(l.number)))}
	if h.effort == (effort{}) {
		h.effort = thorough
		if raceEnabled || testing.Short() {
			h.effort = brief
		}
	}
	searches := []func() *finding{h.smallLimits, h.randomLimits}
	if l.also != nil {
		searches = append(searches, func() *finding { return l.also(h) })
	}
	for _, search := range searches {
		h.tried, h.refused = 0, 0
		if f := search(); f != nil {
			t.Errorf("%s", h.report(h.shrink(f)))
			return
		}
		if h.tried > 0 && h.refused > h.tried-(h.tried+15)/16 {
			t.Errorf("algotest: %s refuses %d of %d limits: %v", s.Name, h.refused, h.tried, h.refusal)
			return
		}
	}
}

// policy is the subject's policy for the limit, or nil where it takes no such limit.
func (h *hunt) policy(l algo.Limit) algo.Policy {
	h.tried++
	p, err := h.subject.New(l)
	if err != nil {
		h.refused++
		h.refusal = err
		return nil
	}
	return p
}

// examine judges one point.
func (h *hunt) examine(past *node, limit algo.Limit, policy algo.Policy, now int64) (f *finding) {
	p := point{subject: h.subject, limit: limit, policy: policy, state: past.state, now: now, past: past}
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *fault:
			f = &finding{past, limit, now, *v}
		default:
			f = &finding{past, limit, now, fault{fmt.Sprintf("panic: %v", v), p.probes}}
		}
	}()
	h.law.judge(&p)
	return nil
}

// try applies an event to a node: the node that it leads to, or the same where
// it changed nothing. A policy that panics stays where it is, for the judge to see.
func (h *hunt) try(n *node, policy algo.Policy, e event) (to *node) {
	defer func() {
		if recover() != nil {
			to = n
		}
	}()
	next, r, err := apply(policy, e.op, nil, n.state, e.at, e.cost)
	if err != nil || bytes.Equal(next, n.state) || !exact(r) {
		return n
	}
	e.r = r
	return n.then(e, next)
}

// exact reports whether what was used is well within the range in which nothing
// saturates. Steps always are; a debt need not be.
func exact(r algo.Result) bool {
	return r.Remaining > -1<<60 && (r.Remaining >= 0 || r.ResetAfter < 1<<61)
}

// shrink looks for a shorter history, earlier times and smaller costs that break
// the law still.
func (h *hunt) shrink(f *finding) *finding {
	for budget := 2000; budget > 0; {
		smaller := h.shrinkOnce(f, &budget)
		if smaller == nil {
			break
		}
		f = smaller
	}
	return f
}

func (h *hunt) shrinkOnce(f *finding, budget *int) *finding {
	history := f.past.history()
	attempt := func(history []event, now int64) *finding {
		*budget--
		return h.replay(history, f.limit, now)
	}
	for i := range history {
		without := append(append([]event(nil), history[:i]...), history[i+1:]...)
		if g := attempt(without, f.now); g != nil {
			return g
		}
	}
	for i, e := range history {
		for _, cost := range []int64{1, e.cost / 2, e.cost - 1} {
			if cost < 1 || cost >= e.cost {
				continue
			}
			cheaper := append([]event(nil), history...)
			cheaper[i].cost = cost
			if g := attempt(cheaper, f.now); g != nil {
				return g
			}
		}
	}
	start := epoch.UnixNano()
	if len(history) == 0 {
		if f.now != start {
			return attempt(nil, start)
		}
		return nil
	}
	if by := history[0].at - start; by != 0 {
		if g := attempt(moved(history, 0, -by), f.now-by); g != nil {
			return g
		}
	}
	last := start
	for i := 0; i <= len(history); i++ {
		at := f.now
		if i < len(history) {
			at = history[i].at
		}
		for _, by := range []int64{at - last, (at - last) / 2, 1} {
			if by <= 0 || by > at-last {
				continue
			}
			if g := attempt(moved(history, i, -by), f.now-by); g != nil {
				return g
			}
		}
		last = at
	}
	return nil
}

// moved is the history with everything from event i on moved in time.
func moved(history []event, i int, by int64) []event {
	m := append([]event(nil), history...)
	for ; i < len(m); i++ {
		m[i].at += by
	}
	return m
}

// replay runs a history afresh and judges its end.
func (h *hunt) replay(history []event, limit algo.Limit, now int64) *finding {
	if now < 0 || now > algo.MaxInstant {
		return nil
	}
	n := root()
	for _, e := range history {
		policy, err := h.subject.New(e.limit)
		if err != nil || e.at < 0 || e.at > algo.MaxInstant {
			return nil
		}
		n = h.try(n, policy, e)
	}
	policy, err := h.subject.New(limit)
	if err != nil || !h.law.skewed && now < n.latest {
		return nil
	}
	return h.examine(n, limit, policy, now)
}

// report is what is printed of a law that does not hold.
func (h *hunt) report(f *finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "algotest: law %d, %s, does not hold for %s (seed %d):\n    %s\n\n    %s\n\n",
		h.law.number, h.law.name, h.subject.Name, seed, h.law.sentence, f.fault.text)
	for line := range strings.Lines(trace(h.subject, f.past.history(), f.limit)) {
		b.WriteString("    " + line)
	}
	fmt.Fprintf(&b, "    # judged at %s, state %x", offset(f.now), f.past.state)
	for _, e := range f.fault.probes[max(0, len(f.fault.probes)-6):] {
		fmt.Fprintf(&b, "\n    # %-6v %s cost %d: %s, left %d, retry %s, next %s, reset %s", e.op, offset(e.at), e.cost,
			e.verdict(), e.r.Remaining, wait(e.r.RetryAfter), wait(e.r.NextRefill), wait(e.r.ResetAfter))
	}
	return b.String()
}

// smallLimits walks from state to state under counts to 6 and periods to 12ns.
func (h *hunt) smallLimits() *finding {
	for i := 0; i < 72; i += h.effort.limits {
		limit := algo.Per(int64(i%6)+1, time.Duration(i/6)+1)
		policy := h.policy(limit)
		if policy == nil {
			continue
		}
		bases := []int64{epoch.UnixNano()}
		if i%3 == 0 {
			bases = append(bases, 0)
		}
		for _, base := range bases {
			if f := h.walk(limit, policy, base); f != nil {
				return f
			}
		}
	}
	return nil
}

// walk judges the states that at most effort.depth events lead to, nearest first.
// Layers too large to keep are sampled.
func (h *hunt) walk(limit algo.Limit, policy algo.Policy, base int64) *finding {
	effort := h.effort.within(limit)
	layer, seen := []*node{root()}, map[string]bool{}
	for depth := 0; ; depth++ {
		for _, n := range layer {
			for _, now := range sample(h.random, h.readings(n, limit, base), effort.readings) {
				if f := h.examine(n, limit, policy, now); f != nil {
					return f
				}
			}
		}
		if depth == effort.depth {
			return nil
		}
		var next []*node
		for _, n := range layer {
			for _, e := range sample(h.random, h.events(n, limit, policy, base), effort.tries) {
				to := h.try(n, policy, e)
				id := fmt.Sprint(to.latest) + string(to.state)
				if to != n && !seen[id] {
					seen[id] = true
					next = append(next, to)
				}
			}
		}
		layer = sample(h.random, next, effort.layer)
	}
}

// readings are the instants at which a state is worth judging.
func (h *hunt) readings(n *node, limit algo.Limit, base int64) []int64 {
	from, to := n.latest, n.latest+2*int64(limit.Period)+2
	if n.before == nil {
		from, to = base, base+int64(limit.Period)
	} else if h.law.skewed {
		from = base
	}
	return span(from, to)
}

// events are those that can come next, in every phase of the period for the
// first and within two periods from then on.
func (h *hunt) events(n *node, limit algo.Limit, policy algo.Policy, base int64) []event {
	from, to := base, base+int64(limit.Period)-1
	if n.before != nil {
		to = base + 2*int64(limit.Period) + 2
		if !h.law.skewed {
			from = n.latest
		}
	}
	r, _ := policy.Peek(nil, instant(from), 1)
	var events []event
	for _, at := range span(from, to) {
		for _, cost := range costs(r.Limit, r.Limit) {
			for _, op := range append([]op{step}, h.law.verbs...) {
				events = append(events, event{limit: limit, op: op, at: at, cost: cost})
			}
		}
	}
	return events
}

func span(from, to int64) []int64 {
	var all []int64
	for t := from; t <= to; t++ {
		all = append(all, t)
	}
	return all
}

// sample is n of all, in their order.
func sample[T any](random *rand.Rand, all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	some := make([]T, 0, n)
	for i, x := range all {
		if random.IntN(len(all)-i) < n-len(some) {
			some = append(some, x)
		}
	}
	return some
}
