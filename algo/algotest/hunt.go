package algotest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
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

// effort is how long the searches are. It is counted in calls of the policy, so
// that every run does the same.
type effort struct {
	limits int // every so many-th of the small limits is taken
	layer  int // states kept at each depth
	tries  int // events tried from each state
	depth  int // events in a row
	small  int // calls for all the small limits
	random int // calls for random histories
}

var (
	thorough = effort{limits: 1, layer: 16, tries: 16, depth: 4, small: 150_000, random: 50_000}
	brief    = effort{limits: 5, layer: 10, tries: 12, depth: 4, small: 30_000, random: 12_000}
)

// complete is the product of count and period up to which a thorough search
// tries every event and judges every state that comes of it.
const complete = 3

func (e effort) within(l algo.Limit) effort {
	if e.limits == 1 && l.Count*int64(l.Period) <= complete {
		e.layer, e.tries, e.small = math.MaxInt, math.MaxInt, math.MaxInt
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
	calls   int             // of the policy, so far
	known   map[string]bool // what once has seen
}

// once reports whether it is the first time that it is asked this of a state at
// an instant, under the limit that is being searched.
func (h *hunt) once(state []byte, t int64) bool {
	key := string(binary.BigEndian.AppendUint64(nil, uint64(t))) + string(state)
	if h.known[key] {
		return false
	}
	h.known[key] = true
	return true
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
	h := &hunt{law: l, subject: s, known: map[string]bool{}, effort: s.effort, random: rand.New(rand.NewPCG(seed, uint64(l.number)))}
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
	p := point{hunt: h, subject: h.subject, limit: limit, policy: policy, state: past.state, now: now, past: past}
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

// counted is apply, counted.
func (h *hunt) counted(policy algo.Policy, op op, dst, state []byte, now, cost int64) ([]byte, algo.Result, error) {
	h.calls++
	return apply(policy, op, dst, state, now, cost)
}

// try applies an event to a node: the node that it leads to, or the same where
// it changed nothing, as a denial does by law. A policy that panics stays where it
// is, for the judge to see.
func (h *hunt) try(n *node, policy algo.Policy, e event) (to *node) {
	defer func() {
		if recover() != nil {
			to = n
		}
	}()
	next, r, err := h.counted(policy, e.op, nil, n.state, e.at, e.cost)
	if err != nil || bytes.Equal(next, n.state) || !exact(r) || e.op == step && !r.Allowed {
		return n
	}
	e.r = r
	to = n.then(e, next)
	if r, err := policy.Peek(next, instant(to.time), 1); e.op == refund && err == nil && r.Remaining >= r.Limit {
		to.time = -1
	}
	return to
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
	h.known = map[string]bool{}
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
// Layers too large to keep or to judge are sampled.
func (h *hunt) walk(limit algo.Limit, policy algo.Policy, base int64) *finding {
	effort := h.effort.within(limit)
	share := effort.small / (72 / effort.limits) / effort.depth
	h.known = map[string]bool{}

	layer, seen := []*node{root()}, map[string]bool{}
	for depth := 0; ; depth++ {
		if f := h.judge(layer, limit, policy, base, share); f != nil || depth == effort.depth {
			return f
		}
		var next []*node
		for _, n := range layer {
			for _, e := range h.events(n, limit, policy, base, effort.tries) {
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

// judge examines the states at every reading that is worth it, in any order,
// until its share of calls is used up.
func (h *hunt) judge(layer []*node, limit algo.Limit, policy algo.Policy, base int64, share int) *finding {
	type place struct {
		n   *node
		now int64
	}
	var places []place
	for _, n := range layer {
		for _, now := range h.readings(n, limit, base) {
			places = append(places, place{n, now})
		}
	}
	h.random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	for start := h.calls; len(places) > 0 && h.calls-start < share; places = places[1:] {
		if f := h.examine(places[0].n, limit, policy, places[0].now); f != nil {
			return f
		}
	}
	return nil
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

// events are some of those that can come next: in every phase of the period for
// the first, within two periods from then on.
func (h *hunt) events(n *node, limit algo.Limit, policy algo.Policy, base int64, some int) []event {
	from, to := base, base+int64(limit.Period)-1
	if n.before != nil {
		to = base + 2*int64(limit.Period) + 2
		if !h.law.skewed {
			from = n.latest
		}
	}
	r, _ := policy.Peek(nil, instant(from), 1)
	ats, costs, verbs := span(from, to), costs(r.Limit, r.Limit), append([]op{step}, h.law.verbs...)
	if some >= len(ats)*len(costs)*len(verbs) {
		return every(limit, ats, costs, verbs)
	}
	events := make([]event, some)
	for i := range events {
		events[i] = event{limit: limit, op: pick(h, verbs...), at: pick(h, ats...), cost: pick(h, costs...)}
	}
	return events
}

func every(limit algo.Limit, ats, costs []int64, verbs []op) []event {
	var all []event
	for _, at := range ats {
		for _, cost := range costs {
			for _, op := range verbs {
				all = append(all, event{limit: limit, op: op, at: at, cost: cost})
			}
		}
	}
	return all
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
