package compose

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// Version 1 of the encoding of a state has for each part the length of its state as a uvarint, and the state:
//
//	'a' 1 length state length state ...
//
// The parts are sorted by [Kind], period, count and String. A part without a state has length 0. If a refund makes
// all parts full, the state of the stack is empty.

// Stack is an [algo.Portable] policy that applies several policies, its parts, to one key. It charges a cost to all parts if all
// allow it. Otherwise it charges none, and no state changes. So a policy of your own that counts denials needs a rule of its own.
// The zero Stack denies everything.
//
// The result combines the results of the parts:
//
//   - Limit (a capacity), Available and Remaining are the least of the parts.
//   - RetryAfter, ResetAfter and Skew are the greatest.
//   - NextRefill is the time until Remaining grows: the longest among the parts with the least Remaining, or 0 if one of these is
//     full.
//   - Part is the part that decided: on a denial the one with the longest RetryAfter, otherwise with the least Remaining. Of equal
//     parts it is the first.
//   - Fresh is true if all parts are fresh.
//
// If the number of parts changes, or the algorithm or period of one, the stack has another Kind, and a limiter gives it new
// records. Otherwise stored states stay valid. Beware: parts of the same algorithm and period are in the order of their counts,
// then of their Strings. If a change swaps two of them, each gets the state of the other.
type Stack struct {
	parts []algo.Policy
	order []int  // indexes into parts, in the order of the states
	kind  string // see Kind
}

var _ interface {
	algo.Policy
	algo.Portable
} = (*Stack)(nil)

var errOwnRule = errors.New("compose: All takes no Penalty, and no policy whose units are held; give it a rule of its own")

const (
	maxParts = 64
	stackTag = 'a'
)

// All returns a Stack of 1 to 64 parts. It replaces a Stack among them by its parts, and refuses nil and zero policies, a
// Penalty, and an algo.Holder such as inflight.
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
		switch p.(type) {
		case algo.Holder, *Penalty:
			return nil, fmt.Errorf("%w: policy %d is %v", errOwnRule, i, p)
		}
		if err := policy.Check(p); err != nil {
			return nil, fmt.Errorf("compose: All: policy %d denies everything: %w", i, err)
		}
	}
	if len(s.parts) > maxParts {
		return nil, fmt.Errorf("compose: All takes at most %d policies, got %d", maxParts, len(s.parts))
	}
	s.sort()
	return s, nil
}

// sort sets the order of the states, and the kind that follows from it.
func (s *Stack) sort() {
	s.order = make([]int, len(s.parts))
	for i := range s.order {
		s.order[i] = i
	}
	slices.SortStableFunc(s.order, func(i, j int) int {
		a, b := s.parts[i], s.parts[j]
		la, lb := a.Limit(), b.Limit()
		return cmp.Or(cmp.Compare(Kind(a), Kind(b)), cmp.Compare(la.Period, lb.Period), cmp.Compare(la.Count, lb.Count), cmp.Compare(a.String(), b.String()))
	})
	kinds := make([]string, len(s.order))
	for i, part := range s.order {
		_, period, _ := strings.Cut(s.parts[part].Limit().String(), "/")
		kinds[i] = Kind(s.parts[part]) + "/" + period
	}
	s.kind = "all(" + strings.Join(kinds, ",") + ")"
}

// Parts returns the parts in the order of All and Result.Part. The caller must not modify the slice.
func (s *Stack) Parts() []algo.Policy {
	if s == nil {
		return nil
	}
	return s.parts
}

// StackOf returns p, or the inner policy of a Penalty p, if that is a Stack, and otherwise nil. The Part of a Result of p is an
// index into its Parts.
func StackOf(p algo.Policy) *Stack {
	if penalty, ok := p.(*Penalty); ok {
		p = penalty.Inner()
	}
	stack, _ := p.(*Stack)
	return stack
}

func (s *Stack) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return s.apply(policy.Step, dst, state, now, cost)
}

// Refund implements [algo.Policy]. Paid is minus what Remaining grew by.
func (s *Stack) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return s.apply(policy.Refund, dst, state, now, cost)
}

func (s *Stack) Charge(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return s.apply(policy.Charge, dst, state, now, cost)
}

func (s *Stack) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	_, r, err := s.apply(policy.Peek, nil, state, now, cost)
	return r, err
}

// apply applies an operation to all parts. If one denies it, the state does not change. For a Peek,
// apply does not append the state.
func (s *Stack) apply(op policy.Op, dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	switch {
	case cost < 1:
		return dst, algo.Result{}, algo.ErrCost
	case len(s.parts) == 0:
		return append(dst, state...), algo.Result{Cost: cost, RetryAfter: algo.Never}, nil
	}
	states, err := s.states(state)
	if err != nil {
		return dst, algo.Result{}, err
	}
	const most = math.MaxInt64
	r := stackResult{before: most, Result: algo.Result{Allowed: true, Limit: most, Cost: cost, Available: most, Remaining: most, Fresh: true}}
	next := dst
	if op != policy.Peek {
		next = append(dst, stackTag, policy.Version)
	}
	for _, i := range s.order {
		var own []byte
		var result algo.Result
		part, start := s.parts[i], len(next)
		if own, states, _ = cutState(states); op == policy.Peek {
			result, err = part.Peek(own, now, cost)
		} else {
			next, result, err = op.Apply(part, append(next, 0), own, now, cost) // the 0 becomes the length
		}
		if err != nil {
			return dst, algo.Result{}, fmt.Errorf("compose: part %d: %w", i, err)
		}
		if r.add(i, &result); op == policy.Peek {
			continue
		}
		if !result.Allowed {
			break
		}
		length := uint64(len(next) - start - 1)
		if next[start] = byte(length); length >= 0x80 { // its uvarint has more than one byte
			var encoded [binary.MaxVarintLen64]byte
			next = slices.Replace(next, start, start+1, encoded[:binary.PutUvarint(encoded[:], length)]...)
		}
	}
	if op != policy.Peek && !r.Allowed {
		// Parts before the one that denied have counted the charge. Peek has not.
		peeked, err := s.Peek(state, now, cost)
		if err != nil {
			return dst, peeked, err
		}
		return append(dst, state...), peeked, nil
	}
	s.finish(&r, state)
	if r.ResetAfter == 0 && !bytes.Equal(next[len(dst):], state) { // all parts are full
		next = next[:len(dst)]
	}
	return next, r.Result, nil
}

// Bound returns the least bound of a part.
func (s *Stack) Bound(interval time.Duration) int64 {
	least := int64(math.MaxInt64)
	for _, part := range s.parts {
		least = min(least, part.Bound(interval))
	}
	return least
}

func (s *Stack) Limit() algo.Limit {
	if len(s.parts) == 0 {
		return algo.Limit{}
	}
	return s.parts[0].Limit()
}

// String returns the spec of the stack, such as "all(gcra 10/s; gcra 100/m)".
func (s *Stack) String() string {
	specs := make([]string, len(s.parts))
	for i, part := range s.parts {
		specs[i] = part.String()
	}
	return "all(" + strings.Join(specs, "; ") + ")"
}

// Program returns a program if all parts have one.
func (s *Stack) Program() (algo.Program, bool) {
	var p algo.Program
	for _, i := range s.order {
		program := policy.ProgramOf(s.parts[i])
		if program == nil {
			return algo.Program{}, false
		}
		p.Parts = append(p.Parts, *program)
	}
	return p, len(p.Parts) > 0
}

// Split returns each part with its own state, which can be empty, in the order of their states. If state is not one of the stack,
// Split returns nothing.
func (s *Stack) Split(state []byte) iter.Seq2[algo.Policy, []byte] {
	return func(yield func(part algo.Policy, own []byte) bool) {
		states, err := s.states(state)
		if err != nil {
			return
		}
		for _, i := range s.order {
			var own []byte
			if own, states, _ = cutState(states); !yield(s.parts[i], own) {
				return
			}
		}
	}
}

// Join is the inverse of Split. It returns empty bytes if all states are empty.
func (s *Stack) Join(states ...[]byte) []byte {
	joined, used := []byte{stackTag, policy.Version}, false
	for _, own := range states {
		joined = append(binary.AppendUvarint(joined, uint64(len(own))), own...)
		used = used || len(own) > 0
	}
	if !used {
		return nil
	}
	return joined
}

// stackResult combines the results of the parts of a Stack.
type stackResult struct {
	algo.Result
	before     int64  // the least that a part had before it charged
	freshParts uint64 // one bit for each fresh part
}

// add adds the result of a part. The order of the calls does not matter.
func (t *stackResult) add(part int, r *algo.Result) {
	if t.isDecidedBy(part, r) {
		t.Part = int32(part)
	}
	switch {
	case r.Remaining < t.Remaining:
		t.Remaining, t.NextRefill = r.Remaining, r.NextRefill
	case r.Remaining == t.Remaining && min(t.NextRefill, r.NextRefill) == 0: // one is full
		t.NextRefill = 0
	case r.Remaining == t.Remaining:
		t.NextRefill = max(t.NextRefill, r.NextRefill)
	}
	t.Allowed = t.Allowed && r.Allowed
	t.Fresh = t.Fresh && r.Fresh
	if r.Fresh {
		t.freshParts |= 1 << part
	} else {
		t.Available = min(t.Available, r.Available)
	}
	t.before = min(t.before, r.Remaining+r.Paid)
	t.Limit = min(t.Limit, r.Limit)
	t.RetryAfter = max(t.RetryAfter, r.RetryAfter)
	t.ResetAfter = max(t.ResetAfter, r.ResetAfter)
	t.Skew = max(t.Skew, r.Skew)
}

// isDecidedBy reports whether a part decided, and not one of the parts that were added before.
func (t *stackResult) isDecidedBy(part int, r *algo.Result) bool {
	first := int32(part) < t.Part
	switch {
	case t.Allowed != r.Allowed:
		return t.Allowed
	case t.Allowed:
		return r.Remaining < t.Remaining || r.Remaining == t.Remaining && first
	}
	return r.RetryAfter > t.RetryAfter || r.RetryAfter == t.RetryAfter && first
}

// finish completes the result of an operation on state after all parts are added.
func (s *Stack) finish(t *stackResult, state []byte) {
	switch {
	case t.Fresh:
		t.Available = 0
	case t.freshParts != 0:
		s.addExpiredAvailable(t, state)
	}
	t.Paid = t.before - t.Remaining // a refund can change which part has the least
	t.Refilled = t.Remaining + t.Paid - t.Available
}

// addExpiredAvailable corrects Available if some parts have expired and others have not. An expired part reports the
// units that its last step left only at the time of that step. The Skew of a Peek at the epoch is that time.
func (s *Stack) addExpiredAvailable(t *stackResult, state []byte) {
	epoch := time.Unix(0, 0)
	states, _ := s.states(state)
	for _, i := range s.order {
		var own []byte
		if own, states, _ = cutState(states); t.freshParts&(1<<i) == 0 {
			continue
		}
		r, _ := s.parts[i].Peek(own, epoch, 1)
		r, _ = s.parts[i].Peek(own, epoch.Add(r.Skew), 1)
		t.Available = min(t.Available, r.Remaining)
	}
}

// states returns the encoded states of the parts in a state, or an error if it is not valid.
func (s *Stack) states(state []byte) ([]byte, error) {
	if len(state) < 2 || state[0] != stackTag || state[1] != policy.Version {
		return nil, policy.HeaderError(state, stackTag)
	}
	rest, used := state[2:], false
	for range s.parts {
		own, after, ok := cutState(rest)
		if !ok {
			return nil, algo.ErrState
		}
		rest, used = after, used || len(own) > 0
	}
	if len(rest) > 0 || !used {
		return nil, algo.ErrState
	}
	return state[2:], nil
}

// cutState cuts off the state of the next part. If states is empty, own is empty and ok is false.
func cutState(states []byte) (own, rest []byte, ok bool) {
	length, n := binary.Uvarint(states)
	overlong := n > 1 && states[n-1] == 0
	if n <= 0 || overlong || length > uint64(len(states)-n) {
		return nil, nil, false
	}
	end := n + int(length)
	return states[n:end], states[end:], true
}
