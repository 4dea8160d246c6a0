package algotest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-go/sluice/algo"
)

const seed = 1

// A search looks for a point at which a law is broken.
type search struct {
	law     law
	number  int // of the law
	subject Subject
	effort  effort
	random  *rand.Rand
	tried   int // limits
	refused int
	refusal error
	calls   int     // calls of the policy so far
	checked visited // states that need not be checked again, under this limit
	buffers buffers
}

// A violation is a point at which the law is broken.
type violation struct {
	past    *node
	limit   algo.Limit
	now     int64
	failure failure
}

// test reports where the subject breaks the law.
func (l law) test(t testing.TB, subject Subject, number int) {
	t.Helper()
	if subject.New == nil {
		t.Errorf("algotest: Subject.New is nil; it is required")
		return
	}
	subject, missing := subject.withStrictNew()
	if l.run != nil {
		l.run(t, subject)
		return
	}
	s := &search{
		law: l, number: number, subject: subject, effort: subject.effort, checked: visited{},
		random: rand.New(rand.NewPCG(seed, uint64(number))),
	}
	switch {
	case l.effort != (effort{}):
		s.effort = l.effort
	case s.effort == (effort{}) && Brief():
		s.effort = brief
	case s.effort == (effort{}):
		s.effort = thorough
	}
	searches := []func(*search) *violation{(*search).smallLimits, (*search).randomLimits}
	if l.extra != nil {
		searches = append(searches, l.extra)
	}
	for _, run := range searches {
		s.tried, s.refused = 0, 0
		if v := run(s); v != nil {
			t.Errorf("%s", s.report(s.shrink(v)))
			return
		}
		if *missing != nil {
			t.Errorf("algotest: %s: %v", subject.Name, *missing)
			return
		}
		if s.tried > 0 && s.refused > s.tried-(s.tried+15)/16 {
			t.Errorf("algotest: New of %s refuses %d of %d limits; the last error is: %v", subject.Name, s.refused, s.tried, s.refusal)
			return
		}
	}
}

// policy returns the subject's policy, or nil if New refuses the limit.
func (s *search) policy(l algo.Limit) algo.Policy {
	s.tried++
	p, err := s.subject.New(l)
	if err != nil {
		s.refused++
		s.refusal = err
		return nil
	}
	return p
}

// check checks the law at one point.
func (s *search) check(past *node, limit algo.Limit, policy algo.Policy, now int64) *violation {
	return s.checkWith(s.law.check, past, limit, policy, now)
}

func (s *search) checkWith(check func(*point), past *node, limit algo.Limit, policy algo.Policy, now int64) *violation {
	s.buffers.block = s.buffers.block[:0]
	p := &s.buffers.point
	*p = point{
		search: s, subject: &s.subject, limit: limit, policy: policy, state: past.state, now: now, past: past,
		probes: p.probes[:0],
	}
	v := s.catch(past, limit, now, func() *violation {
		check(p)
		return nil
	})
	if v != nil {
		v.failure.probes = slices.Clone(p.probes)
	}
	return v
}

// catch turns a panic into a violation.
func (s *search) catch(past *node, limit algo.Limit, now int64, run func() *violation) (v *violation) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *failure:
			v = &violation{past, limit, now, *r}
		default:
			v = &violation{past, limit, now, failure{text: fmt.Sprintf("panic: %v", r)}}
		}
	}()
	return run()
}

// apply calls the policy and counts the call.
func (s *search) apply(policy algo.Policy, op op, dst, state []byte, now, cost int64) ([]byte, algo.Result, error) {
	s.calls++
	return apply(policy, op, dst, state, now, cost)
}

// next returns the node after an event, or n if the event changed nothing or the policy
// panicked.
func (s *search) next(n *node, policy algo.Policy, e event) *node {
	return s.nextUnvisited(n, policy, e, nil)
}

// nextUnvisited is next, but also returns n if the new state is in v.
func (s *search) nextUnvisited(n *node, policy algo.Policy, e event, v visited) (to *node) {
	defer func() {
		if recover() != nil {
			to = n
		}
	}()
	next, r, err := s.apply(policy, e.op, s.buffers.dst(0), n.state, e.at, e.cost)
	if err != nil || bytes.Equal(next, n.state) || !isExact(r) || e.op == step && !r.Allowed {
		return n
	}
	if v != nil && !v.add(next, max(n.latest, e.at)) {
		return n
	}
	e.r = r
	to = n.extend(e, append([]byte(nil), next...))
	if r, err := policy.Peek(to.state, instant(to.time), 1); e.op == refund && err == nil && r.Remaining >= r.Limit {
		to.time = -1
	}
	return to
}

// isExact reports whether the use is so far within its range that nothing is cut off. After
// a charge it need not be.
func isExact(r algo.Result) bool {
	return r.Remaining > -1<<60 && (r.Remaining >= 0 || r.ResetAfter < 1<<61)
}
