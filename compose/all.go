package compose

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// Stack is a policy that allows what all of its parts allow, and then charges
// each; a denial by one charges none. Make one with [All]; the zero Stack, and a nil
// one, denies everything.
//
// It decides on one state for one key, so there is no moment at which some parts
// have been charged and others not. Its answers are exact:
//
//   - Limit, Remaining and Available are the least of the parts': Available is
//     what the last step that paid left, Refilled what came back since. RetryAfter
//     and ResetAfter are the greatest.
//   - NextRefill is when the least grows, which takes every part that stands at
//     it; 0 where one of those is full, because then no time brings more.
//   - Part is the part that bound: of a denial the one with the greatest
//     RetryAfter, otherwise the one with the least Remaining; the first of equals.
//   - Fresh is true only when every part is fresh.
//
// A cost of 0 asks each part for the cost in that part's own options. Where these
// differ there is no one cost: Cost is then that of the part that bound, Paid and
// Remaining are in the units of the part with the least Remaining.
//
// The parts of a live key may change their limits and options, but not their
// algorithms, number or order: the state is then refused with [algo.ErrState].
//
// # State encoding
//
// Version 1, two bytes and one per part on top of the parts' states:
//
//	'a' 1
//	of each part, in order: uvarint length of its state, then the state
//
// The state of a part that was never seen is empty. If a refund makes all parts
// full, no bytes are left: that is a key never seen.
type Stack struct{ parts []algo.Policy }

var _ algo.Policy = (*Stack)(nil)

const maxParts = 64

// All makes a Stack of the parts, from 1 to 64, none of which is a zero policy. A part
// that is a Stack itself is replaced by its own parts.
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
		if err := barren(p); err != nil {
			return nil, fmt.Errorf("compose: All: policy %d denies everything: %w", i, err)
		}
	}
	if len(s.parts) > maxParts {
		return nil, fmt.Errorf("compose: All takes at most %d policies, got %d", maxParts, len(s.parts))
	}
	return s, nil
}

// Len is how many parts the stack has.
func (s *Stack) Len() int { return len(s.all()) }

// Part returns one policy of the stack, as Result.Part counts them, from 0. It
// panics beyond Len.
func (s *Stack) Part(i int) algo.Policy { return s.all()[i] }

// Parts returns the policies of the stack, in the order that Result.Part counts.
func (s *Stack) Parts() []algo.Policy { return append([]algo.Policy(nil), s.all()...) }

// all are the parts, of a nil stack too.
func (s *Stack) all() []algo.Policy {
	if s == nil {
		return nil
	}
	return s.parts
}

// Step implements [algo.Policy]. It takes cost units from every part, or none from any.
func (s *Stack) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return s.move(algo.Policy.Step, dst, state, now, cost)
}

// Refund implements [algo.Policy]. It gives cost units back to every part, each
// up to full; Paid is minus what Remaining gained by it.
func (s *Stack) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return s.move(algo.Policy.Refund, dst, state, now, cost)
}

// Charge implements [algo.Policy]. It takes cost units from every part.
func (s *Stack) Charge(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return s.move(algo.Policy.Charge, dst, state, now, cost)
}

// Peek implements [algo.Policy].
func (s *Stack) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	f, err := openFrame(state)
	if err != nil {
		return algo.Result{}, err
	}
	t := newTotal()
	for i, part := range s.all() {
		r, err := part.Peek(f.next(), now, cost)
		if err != nil {
			return algo.Result{}, wrap(i, err)
		}
		t.add(i, &r)
	}
	if err := f.close(); err != nil {
		return algo.Result{}, err
	}
	return s.settle(&t, state, cost)
}

// move makes the same move on every part, or on none.
func (s *Stack) move(
	move func(algo.Policy, []byte, []byte, time.Time, int64) ([]byte, algo.Result, error),
	dst, state []byte, now time.Time, cost int64,
) ([]byte, algo.Result, error) {
	f, err := openFrame(state)
	if err != nil {
		return dst, algo.Result{}, err
	}
	next := append(dst, tag, version)
	t := newTotal()
	for i, part := range s.all() {
		var r algo.Result
		length := len(next)
		next, r, err = move(part, append(next, 0), f.next(), now, cost)
		if err != nil {
			return dst, algo.Result{}, wrap(i, err)
		}
		if t.add(i, &r); !r.Allowed {
			break
		}
		next = putLength(next, length)
	}
	if !t.Allowed || len(s.all()) == 0 {
		return s.stay(dst, state, now, cost)
	}
	if err := f.close(); err != nil {
		return dst, algo.Result{}, err
	}
	r, err := s.settle(&t, state, cost)
	if r.ResetAfter == 0 && !bytes.Equal(next[len(dst):], state) { // every part is full again
		next = next[:len(dst)]
	}
	return next, r, err
}

// stay is what a denied move comes to: the same bytes, and an answer in which no
// part has paid, for those before the one that denied have already said they did.
func (s *Stack) stay(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	r, err := s.Peek(state, now, cost)
	if err != nil {
		return dst, r, err
	}
	return append(dst, state...), r, nil
}

func wrap(part int, err error) error {
	return fmt.Errorf("compose: part %d: %w", part, err)
}

// Bound implements [algo.Policy]. It is the least of the parts' bounds, in units
// of the cost that is given to Step. It is math.MaxInt64 if all parts' bounds are.
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

// Limit implements [algo.Policy]: the limit of the first part.
func (s *Stack) Limit() algo.Limit {
	if len(s.all()) == 0 {
		return algo.Limit{}
	}
	return s.all()[0].Limit()
}

// String is the stack's spec, such as "all(gcra 10/s; gcra 100/m)".
func (s *Stack) String() string {
	specs := make([]string, len(s.all()))
	for i, part := range s.all() {
		specs[i] = part.String()
	}
	return "all(" + strings.Join(specs, "; ") + ")"
}

// priority is the priority of the part that lasts longest in a state of the stack, or that
// of another part up to UsedHalf. A part that is used up, but soon full again, must not
// make a key outlive those that have used up a part for much longer.
func (s *Stack) priority(state []byte, now time.Time) storage.Priority {
	f, err := openFrame(state)
	if err != nil {
		return storage.UsedUp
	}
	var longest time.Duration
	var ofLongest, ofOthers storage.Priority
	for _, part := range s.all() {
		r, err := part.Peek(f.next(), now, 1)
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
