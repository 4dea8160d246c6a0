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
	next, err = p.decide(dst, state, now, cost, &r, pay)
	return next, r, err
}

// Peek implements [algo.Policy].
func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	_, err = p.decide(nil, state, now, cost, &r, look)
	return r, err
}

// Refund implements [algo.Policy].
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.decide(dst, state, now, cost, &r, refund)
	return next, r, err
}

// Charge implements [algo.Policy].
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.decide(dst, state, now, cost, &r, charge)
	return next, r, err
}

// decide appends the next state, or the very same bytes where nothing changed; a
// look appends nothing.
func (p Policy) decide(dst, state []byte, now time.Time, cost int64, r *algo.Result, to purpose) ([]byte, error) {
	if cost < 0 {
		return dst, algo.ErrCost
	}
	var s State
	if err := s.parse(state); err != nil {
		return dst, err
	}
	r.Cost = cost
	switch changed := p.window().decide(&s, algo.Instant(now), r, to); {
	case changed:
		return s.append(dst), nil
	case to == look:
		return dst, nil
	}
	return append(dst, state...), nil
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
