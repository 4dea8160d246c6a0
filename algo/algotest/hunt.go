package algotest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

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

// A hunt is the search for a point at which a law does not hold.
type hunt struct {
	law     law
	subject Subject
	effort  effort
	random  *rand.Rand
	tried   int
	refused int
	refusal error
	calls   int  // of the policy, so far
	known   seen // what once has seen
	scratch scratch
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
	if !s.ready(t) {
		return
	}
	s, nothing := s.strict()
	h := &hunt{law: l, subject: s, known: seen{}, effort: s.effort, random: rand.New(rand.NewPCG(seed, uint64(l.number)))}
	if h.effort == (effort{}) {
		h.effort = thorough
		if Brief() {
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
		if *nothing != nil {
			t.Errorf("algotest: %s: %v", s.Name, *nothing)
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
func (h *hunt) examine(past *node, limit algo.Limit, policy algo.Policy, now int64) *finding {
	return h.examineBy(h.law.judge, past, limit, policy, now)
}

// examineBy lets that judge decide on one point.
func (h *hunt) examineBy(judge func(*point), past *node, limit algo.Limit, policy algo.Policy, now int64) *finding {
	h.scratch.block = h.scratch.block[:0]
	p := &h.scratch.point
	*p = point{
		hunt: h, subject: &h.subject, limit: limit, policy: policy, state: past.state, now: now, past: past,
		probes: p.probes[:0],
	}
	f := h.guarded(past, limit, now, func() *finding {
		judge(p)
		return nil
	})
	if f != nil {
		f.fault.probes = slices.Clone(p.probes)
	}
	return f
}

// guarded makes a finding of a fault, and of any other panic.
func (h *hunt) guarded(past *node, limit algo.Limit, now int64, search func() *finding) (f *finding) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *fault:
			f = &finding{past, limit, now, *v}
		default:
			f = &finding{past, limit, now, fault{text: fmt.Sprintf("panic: %v", v)}}
		}
	}()
	return search()
}

// counted is apply, counted.
func (h *hunt) counted(policy algo.Policy, op op, dst, state []byte, now, cost int64) ([]byte, algo.Result, error) {
	h.calls++
	return apply(policy, op, dst, state, now, cost)
}

// try applies an event to a node: the node that it leads to, or the same where
// it changed nothing, as a denial does by law. A policy that panics stays where it
// is, for the judge to see.
func (h *hunt) try(n *node, policy algo.Policy, e event) *node { return h.discover(n, policy, e, nil) }

// discover is try, but stays where it is also if it has been there before.
func (h *hunt) discover(n *node, policy algo.Policy, e event, been seen) (to *node) {
	defer func() {
		if recover() != nil {
			to = n
		}
	}()
	next, r, err := h.counted(policy, e.op, h.scratch.room(0), n.state, e.at, e.cost)
	if err != nil || bytes.Equal(next, n.state) || !exact(r) || e.op == step && !r.Allowed {
		return n
	}
	if been != nil && !been.add(next, max(n.latest, e.at)) {
		return n
	}
	e.r = r
	to = n.then(e, append([]byte(nil), next...))
	if r, err := policy.Peek(to.state, instant(to.time), 1); e.op == refund && err == nil && r.Remaining >= r.Limit {
		to.time = -1
	}
	return to
}

// exact reports whether what was used is well within the range in which nothing
// saturates. Steps always are; a debt need not be.
func exact(r algo.Result) bool {
	return r.Remaining > -1<<60 && (r.Remaining >= 0 || r.ResetAfter < 1<<61)
}
