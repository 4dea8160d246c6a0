package movingwindow

import (
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Policy is the algorithm with its options bound: Step and its siblings over
// encoded state. Make one with [New]; the zero Policy denies everything.
type Policy struct{ bound *bound } // a pointer, so that an algo.Policy holds it as it is

type bound struct {
	options Options
	window  window
}

var _ algo.Policy = Policy{}

// New binds the options. It returns an error that names the field where they
// are not valid; a negative cost is [algo.ErrCost].
func New(o Options) (Policy, error) {
	if err := o.Validate(); err != nil {
		return Policy{}, err
	}
	b := bound{options: o}
	b.window.bind(&o)
	return Policy{&b}, nil
}

// Options returns the options the policy was made with.
func (p Policy) Options() Options {
	if p.bound == nil {
		return Options{}
	}
	return p.bound.options
}

// window is without slots in the zero Policy.
func (p Policy) window() *window {
	if p.bound == nil {
		return &window{cost: 1}
	}
	return &p.bound.window
}

// Step implements [algo.Policy].
func (p Policy) Step(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	var s State
	if err := s.open(state, cost); err != nil {
		return dst, r, err
	}
	r.Cost = cost
	if !step(&s, algo.Instant(now), p.window(), &r) {
		return append(dst, state...), r, nil
	}
	return s.append(dst), r, nil
}

// Peek implements [algo.Policy].
func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	var s State
	if err := s.open(state, cost); err != nil {
		return r, err
	}
	r.Cost = cost
	peek(&s, algo.Instant(now), p.window(), &r)
	return r, nil
}

// Refund implements [algo.Policy].
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	var s State
	if err := s.open(state, cost); err != nil {
		return dst, r, err
	}
	r.Cost = cost
	if !refund(&s, algo.Instant(now), p.window(), &r) {
		return append(dst, state...), r, nil
	}
	return s.append(dst), r, nil
}

// Charge implements [algo.Policy].
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	var s State
	if err := s.open(state, cost); err != nil {
		return dst, r, err
	}
	r.Cost = cost
	if !charge(&s, algo.Instant(now), p.window(), &r) {
		return append(dst, state...), r, nil
	}
	return s.append(dst), r, nil
}

// open decodes the state into the zero State s.
func (s *State) open(state []byte, cost int64) error {
	if cost < 0 {
		return algo.ErrCost
	}
	return s.parse(state)
}

// Bound implements [algo.Policy]; see [Bound].
func (p Policy) Bound(interval time.Duration) int64 { return Bound(p.Options(), interval) }

// Limit implements [algo.Policy].
func (p Policy) Limit() algo.Limit { return p.Options().Limit }

// String is the policy's spec, such as "movingwindow 100/m slots=12 trailing=whole".
func (p Policy) String() string {
	o := p.Options()
	s := "movingwindow " + o.Limit.String()
	if n := o.slots(); n != 1 {
		s += " slots=" + strconv.Itoa(n)
	}
	if o.Trailing != Weighted {
		s += " trailing=" + o.Trailing.String()
	}
	if c := o.cost(); c != 1 {
		s += " cost=" + strconv.FormatInt(c, 10)
	}
	return s
}
