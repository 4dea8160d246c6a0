package algotest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

const seed = 1

// A search looks for a point at which a law is broken.
type search struct {
	law     law
	number  int // of the law
	subject Subject
	effort  effort
	random  sample.Source
	tried   int // limits
	refused int
	refusal error
	missing error   // New returned neither a policy nor an error
	calls   int     // calls of the policy so far
	checked visited // states that need not be checked again, under this limit
	point   point   // all points use its memory, one after the other
}

// A violation is a history after which the law is broken.
type violation struct {
	history []event
	state   []byte
	limit   algo.Limit // after the history
	now     int64      // the time of the check
	text    string
	probes  []event // the calls of the check
}

// test reports where the subject breaks the law.
func (l law) test(t testing.TB, subject Subject, number int) {
	t.Helper()
	if subject.New == nil {
		t.Errorf("algotest: Subject.New is nil; it is required")
		return
	}
	s := &search{
		law: l, number: number, subject: subject, effort: subject.effort, checked: visited{},
		random: sample.New(seed, uint64(number)),
	}
	if l.effort != (effort{}) {
		s.effort = l.effort
		if sample.Brief() {
			s.effort.limits, s.effort.random = 3*s.effort.limits, s.effort.random/8
		}
	} else if s.effort == (effort{}) {
		s.effort = defaultEffort()
	}
	for _, run := range append([]func(*search) *violation{(*search).smallLimits, (*search).randomLimits}, l.more...) {
		s.tried, s.refused = 0, 0
		if v := run(s); v != nil {
			t.Errorf("%s", s.report(shrink(v, s.replay)))
			return
		}
		if s.missing != nil {
			t.Errorf("algotest: %s: %v", subject.Name, s.missing)
			return
		}
		if s.tried > 0 && s.refused > s.tried-(s.tried+15)/16 {
			t.Errorf("algotest: New of %s refuses %d of %d limits; the last error is: %v", subject.Name, s.refused, s.tried, s.refusal)
			return
		}
	}
}

// new returns the subject's policy, or an error.
func (s *search) new(l algo.Limit) (algo.Policy, error) {
	p, err := s.subject.New(l)
	if p == nil && err == nil {
		err = fmt.Errorf("New returned neither a policy nor an error for %v", l)
		s.missing = err
	}
	return p, err
}

// policy is new for the limits of a search. It returns nil if New refuses the limit.
func (s *search) policy(l algo.Limit) algo.Policy {
	s.tried++
	p, err := s.new(l)
	if err != nil {
		s.refused++
		s.refusal = err
		return nil
	}
	return p
}

// check checks the law at one point.
func (s *search) check(past *node, limit algo.Limit, policy algo.Policy, now int64) *violation {
	p := &s.point
	*p = point{search: s, limit: limit, policy: policy, state: past.state, now: now, past: past, probes: p.probes[:0]}
	v := s.catch(past, limit, now, func() *violation {
		s.law.check(p)
		return nil
	})
	if v != nil {
		v.probes = slices.Clone(p.probes)
	}
	return v
}

// catch turns a panic into a violation.
func (s *search) catch(past *node, limit algo.Limit, now int64, run func() *violation) (v *violation) {
	if text := caught(func() { v = run() }); text != "" {
		v = &violation{history: past.history(), state: past.state, limit: limit, now: now, text: text}
	}
	return v
}

// caught returns the text of the panic that ends run, or "".
func caught(run func()) (text string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			text = string(r)
		default:
			text = fmt.Sprintf("panic: %v", r)
		}
	}()
	run()
	return ""
}

// next returns the node after an event. It returns n if the event changed nothing, if the policy
// panicked, or if the new state is in v.
func (s *search) next(n *node, policy algo.Policy, e event, v visited) (to *node) {
	defer func() {
		if recover() != nil {
			to = n
		}
	}()
	s.calls++
	next, r, err := e.op.Apply(policy, nil, n.state, instant(e.at), e.cost)
	if err != nil || bytes.Equal(next, n.state) || !isExact(r) || e.op == step && !r.Allowed {
		return n
	}
	if v != nil && !v.add(next, max(n.latest, e.at)) {
		return n
	}
	e.r = r
	to = n.extend(e, next)
	if r, err := policy.Peek(to.state, instant(to.time), 1); e.op == refund && err == nil && r.Remaining >= r.Limit {
		to.time = -1
	}
	return to
}

// isExact reports whether the debt is so small that no algorithm cuts it off. An algorithm may cut off a debt that
// exceeds the capacity.
func isExact(r algo.Result) bool { return r.Remaining >= -r.Limit }

// visited is a set of pairs of a state and an instant.
type visited map[string]struct{}

// add reports whether the pair is new.
func (v visited) add(state []byte, t int64) bool {
	var array [128]byte
	key := append(binary.BigEndian.AppendUint64(array[:0], uint64(t)), state...)
	if _, ok := v[string(key)]; ok {
		return false
	}
	v[string(key)] = struct{}{}
	return true
}

// effort limits the searches. It counts calls of the policy, not time, so that every run is
// the same.
type effort struct {
	limits int // test every n-th of the small limits
	layer  int // states to keep at each depth
	tries  int // events to try from each state
	depth  int // events in a row
	checks int // calls to check the states of one depth, for each small limit
	random int // calls for random histories
	bound  int // calls of the adversary, for each small limit
	holds  int // histories for each law of held units

	// exhaustive is the largest product of count and period for which the search tries every event.
	// Larger products have too many states for a test that runs on every commit.
	exhaustive int64
}

var (
	long     = effort{limits: 1, layer: 16, tries: 16, depth: 4, checks: 350, random: 40_000, bound: 40_000, holds: 20_000, exhaustive: 3}
	thorough = effort{limits: 1, layer: 12, tries: 12, depth: 4, checks: 100, random: 10_000, bound: 10_000, holds: 2_000, exhaustive: 2}
	brief    = effort{limits: 5, layer: 10, tries: 12, depth: 4, checks: 500, random: 12_000, bound: 5_000, holds: 300}
	racing   = effort{limits: 11, layer: 6, tries: 8, depth: 2, checks: 60, random: 500, bound: 500, holds: 300}
)

// defaultEffort returns the effort for a law and a subject that have none of their own.
func defaultEffort() effort {
	switch {
	case sample.RaceEnabled:
		return racing
	case sample.Brief():
		return brief
	case sample.Long():
		return long
	}
	return thorough
}
