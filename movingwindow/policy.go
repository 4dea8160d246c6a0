package movingwindow

import (
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Policy is the algorithm with its options. Its methods take and return encoded states. Make a
// Policy with [New]; the zero Policy denies everything. Compare policies by String: == is true only
// for copies of the same Policy.
type Policy struct{ config *config } // a pointer, because an interface holds it without an allocation

type config struct {
	options Options
	window  window
}

var _ algo.Policy = Policy{}

// New returns a policy with the options. If they are not valid, the error names the field.
// For a negative cost the error wraps [algo.ErrCost].
func New(o Options) (Policy, error) {
	if err := o.Validate(); err != nil {
		return Policy{}, err
	}
	c := config{options: o}
	c.window.set(&o)
	return Policy{&c}, nil
}

// Options returns the options that were passed to New.
func (p Policy) Options() Options {
	if p.config == nil {
		return Options{}
	}
	return p.config.options
}

// window returns a window that denies everything if p is the zero Policy.
func (p Policy) window() *window {
	if p.config == nil {
		return &window{cost: 1}
	}
	return &p.config.window
}

// Step implements [algo.Policy].
func (p Policy) Step(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.decide(dst, state, now, cost, &r, opStep)
	return next, r, err
}

// Peek implements [algo.Policy].
func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	_, err = p.decide(nil, state, now, cost, &r, opPeek)
	return r, err
}

// Refund implements [algo.Policy].
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.decide(dst, state, now, cost, &r, opRefund)
	return next, r, err
}

// Charge implements [algo.Policy].
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.decide(dst, state, now, cost, &r, opCharge)
	return next, r, err
}

// decide appends the next state to dst, or state if nothing changed. For opPeek it appends
// nothing.
func (p Policy) decide(dst, state []byte, now time.Time, cost int64, r *algo.Result, op operation) ([]byte, error) {
	if cost < 0 {
		return dst, algo.ErrCost
	}
	var s State
	if err := s.parse(state); err != nil {
		return dst, err
	}
	r.Cost = cost
	switch changed := p.window().decide(&s, algo.Instant(now), r, op); {
	case changed:
		return s.append(dst), nil
	case op == opPeek:
		return dst, nil
	}
	return append(dst, state...), nil
}

// Bound implements [algo.Policy]; see [Bound].
func (p Policy) Bound(interval time.Duration) int64 { return Bound(p.Options(), interval) }

// Limit implements [algo.Policy].
func (p Policy) Limit() algo.Limit { return p.Options().Limit }

// String returns the policy's spec, such as "movingwindow 100/m slots=12 trailing=whole".
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
