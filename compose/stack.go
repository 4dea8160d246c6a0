package compose

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// Stack is a policy that applies several policies, its parts, to one key. It allows a cost
// if all parts allow it, and then all parts pay. A denial costs nothing under any part.
// Make a Stack with [All]. The zero Stack and a nil Stack deny everything.
//
// The states of the parts are one state under one key, so a store never has some parts
// charged and others not. The result of a step combines the results of the parts:
//
//   - Limit, Available and Remaining are the minimum over the parts. Available is the minimum
//     of what the last step that paid left. Refilled is what came back since that step.
//   - RetryAfter and ResetAfter are the maximum over the parts.
//   - NextRefill is the time until Remaining rises. Several parts can share the least
//     Remaining. All of these must refill first. If one of them is full, NextRefill is 0.
//   - Part is the index of the part that decided. On a denial it is the part with the greatest
//     RetryAfter, otherwise the part with the least Remaining. Of equal parts it is the first.
//   - Fresh is true if all parts are fresh.
//
// A cost of 0 means the cost in the options of each part. If these costs differ, Cost is that
// of the part that decided, and Paid and Remaining count units of the part with the least
// Remaining.
//
// If you change the limits or options of the parts, stored states stay valid. If you change the
// algorithms, the number or the order of the parts, the stack refuses stored states with
// [algo.ErrState].
//
// # State encoding
//
// Version 1 has two bytes, and then for each part in order the length of its state as a
// uvarint, and the state:
//
//	'a' 1 length state length state ...
//
// A part without a state has length 0. If all parts are full after a refund, the state is
// empty, as for a new key.
type Stack struct{ parts []algo.Policy }

var _ interface {
	algo.Policy
	algo.Portable
} = (*Stack)(nil)

const maxParts = 64

// All returns a Stack of 1 to 64 policies. It refuses nil and zero policies. If one of the
// policies is a Stack, its parts take its place and count.
func All(parts ...algo.Policy) (*Stack, error) {
	if len(parts) == 0 {
		return nil, errors.New("compose: All needs at least one policy")
	}
	s := new(Stack)
	for i, p := range parts {
		nested, ok := p.(*Stack)
		switch {
		case p == nil || ok && nested == nil:
			return nil, fmt.Errorf("compose: All: policy %d is nil", i)
		case ok:
			s.parts = append(s.parts, nested.parts...)
		default:
			s.parts = append(s.parts, p)
		}
		if err := checkPolicy(p); err != nil {
			return nil, fmt.Errorf("compose: All: policy %d denies everything: %w", i, err)
		}
	}
	if len(s.parts) > maxParts {
		return nil, fmt.Errorf("compose: All takes at most %d policies, got %d", maxParts, len(s.parts))
	}
	return s, nil
}

// Len returns the number of parts.
func (s *Stack) Len() int { return len(s.all()) }

// Part returns the part with index i, from 0. Result.Part is such an index. Part panics if i
// is out of range.
func (s *Stack) Part(i int) algo.Policy { return s.all()[i] }

// Parts returns a new slice of all parts in order. Result.Part is an index into it.
func (s *Stack) Parts() []algo.Policy { return slices.Clone(s.all()) }

// all returns the parts. A nil Stack has none.
func (s *Stack) all() []algo.Policy {
	if s == nil {
		return nil
	}
	return s.parts
}

// Step implements [algo.Policy]. If all parts allow the cost, each part pays it.
func (s *Stack) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return s.apply(algo.Policy.Step, dst, state, now, cost)
}

// Refund implements [algo.Policy]. It gives as many units as cost back to each part, at most until
// the part is full. If Remaining rose by x units, Paid is -x.
func (s *Stack) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return s.apply(algo.Policy.Refund, dst, state, now, cost)
}

// Charge implements [algo.Policy]. Each part pays the cost, even if that leaves a debt.
func (s *Stack) Charge(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return s.apply(algo.Policy.Charge, dst, state, now, cost)
}

// Peek implements [algo.Policy].
func (s *Stack) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	states, err := decodeStates(state)
	if err != nil {
		return algo.Result{}, err
	}
	r := newStackResult()
	for i, part := range s.all() {
		own, err := part.Peek(states.next(), now, cost)
		if err != nil {
			return algo.Result{}, partError(i, err)
		}
		r.add(i, &own)
	}
	if err := states.close(); err != nil {
		return algo.Result{}, err
	}
	return s.finish(&r, state, cost)
}

// apply applies an operation to all parts. If one denies it, the state does not change.
func (s *Stack) apply(
	operation func(algo.Policy, []byte, []byte, time.Time, int64) ([]byte, algo.Result, error),
	dst, state []byte, now time.Time, cost int64,
) ([]byte, algo.Result, error) {
	states, err := decodeStates(state)
	if err != nil {
		return dst, algo.Result{}, err
	}
	next := append(dst, tag, version)
	r := newStackResult()
	for i, part := range s.all() {
		var own algo.Result
		length := len(next)
		next, own, err = operation(part, append(next, 0), states.next(), now, cost)
		if err != nil {
			return dst, algo.Result{}, partError(i, err)
		}
		if r.add(i, &own); !own.Allowed {
			break
		}
		next = putLength(next, length)
	}
	if !r.Allowed || len(s.all()) == 0 {
		// Parts before the one that denied have counted the payment. Peek has not.
		peeked, err := s.Peek(state, now, cost)
		if err != nil {
			return dst, peeked, err
		}
		return append(dst, state...), peeked, nil
	}
	if err := states.close(); err != nil {
		return dst, algo.Result{}, err
	}
	result, err := s.finish(&r, state, cost)
	if result.ResetAfter == 0 && !bytes.Equal(next[len(dst):], state) { // all parts are full
		next = next[:len(dst)]
	}
	return next, result, err
}

func partError(part int, err error) error {
	return fmt.Errorf("compose: part %d: %w", part, err)
}

// Bound implements [algo.Policy]. It returns the minimum of the parts' bounds, in units of
// the cost that Step takes. It returns math.MaxInt64 if all parts do.
func (s *Stack) Bound(interval time.Duration) int64 {
	if len(s.all()) == 0 {
		return 0
	}
	least := int64(math.MaxInt64)
	for _, part := range s.all() {
		least = min(least, part.Bound(interval))
	}
	return least
}

// Limit implements [algo.Policy]. It returns the limit of the first part.
func (s *Stack) Limit() algo.Limit {
	if len(s.all()) == 0 {
		return algo.Limit{}
	}
	return s.all()[0].Limit()
}

// String returns the spec of the stack, such as "all(gcra 10/s; gcra 100/m)".
func (s *Stack) String() string {
	specs := make([]string, len(s.all()))
	for i, part := range s.all() {
		specs[i] = part.String()
	}
	return "all(" + strings.Join(specs, "; ") + ")"
}

// Program implements [algo.Portable]. A Stack has a program if all its parts have one.
func (s *Stack) Program() (algo.Program, bool) {
	var p algo.Program
	for _, part := range s.all() {
		program := programOf(part)
		if program == nil {
			return algo.Program{}, false
		}
		p.Parts = append(p.Parts, *program)
	}
	return p, len(p.Parts) > 0
}

// priority returns the eviction priority of a state. It is that of the part with the greatest
// ResetAfter, or that of another part up to UsedHalf. A part that is used up but soon full
// again must not keep a key longer than keys whose slow parts are used up.
func (s *Stack) priority(state []byte, now time.Time) storage.Priority {
	states, err := decodeStates(state)
	if err != nil {
		return storage.UsedUp
	}
	var longest time.Duration
	var ofLongest, ofOthers storage.Priority
	for _, part := range s.all() {
		r, err := part.Peek(states.next(), now, 1)
		if err != nil {
			return storage.UsedUp
		}
		switch p := priorityOf(&r); {
		case r.ResetAfter > longest:
			ofOthers = max(ofOthers, ofLongest)
			longest, ofLongest = r.ResetAfter, p
		case r.ResetAfter == longest:
			ofLongest = max(ofLongest, p)
		default:
			ofOthers = max(ofOthers, p)
		}
	}
	return max(ofLongest, min(ofOthers, storage.UsedHalf))
}
