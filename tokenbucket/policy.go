package tokenbucket

import (
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Policy is the algorithm with its options. Its methods take and return encoded states. Make a
// Policy with [New]; the zero Policy denies everything. Compare policies by String: == is true only
// for copies of the same Policy.
type Policy struct{ options *Options } // a pointer, because an interface holds it without an allocation

var _ algo.Policy = Policy{}

// New returns a policy with the options. If they are not valid, the error names the field.
// For a negative cost the error wraps [algo.ErrCost].
func New(o Options) (Policy, error) {
	if err := o.Validate(); err != nil {
		return Policy{}, err
	}
	return Policy{&o}, nil
}

// Options returns the options that were passed to New.
func (p Policy) Options() Options { return *p.opts() }

func (p Policy) opts() *Options {
	if p.options == nil {
		return &Options{}
	}
	return p.options
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

// StepInto is Step for a store that holds states in memory. at is the time, as
// [algo.Instant] returns it. StepInto fills in r, which must be zero. dst may be
// state[:0]. If the state does not change, StepInto returns state.
func (p Policy) StepInto(dst, state []byte, at, cost int64, r *algo.Result) (next []byte, err error) {
	return p.decideInto(dst, state, at, cost, r, opStep)
}

// decide appends the next state to dst, or state if nothing is paid. For opPeek it appends
// nothing.
func (p Policy) decide(dst, state []byte, now time.Time, cost int64, r *algo.Result, op operation) (next []byte, err error) {
	next, err = p.decideInto(dst, state, algo.Instant(now), cost, r, op)
	switch {
	case err != nil || op == opPeek:
		return dst, err
	case r.Paid == 0:
		return append(dst, state...), nil
	}
	return next, nil
}

func (p Policy) decideInto(dst, state []byte, at, cost int64, r *algo.Result, op operation) (next []byte, err error) {
	if cost < 0 {
		return dst, algo.ErrCost
	}
	s, err := ParseState(state)
	if err != nil {
		return dst, err
	}
	r.Cost = cost
	after := decide(s, at, p.opts(), r, op)
	if r.Paid == 0 {
		return state, nil
	}
	return after.append(dst), nil
}

// Bound implements [algo.Policy]; see [Bound].
func (p Policy) Bound(interval time.Duration) int64 { return Bound(*p.opts(), interval) }

// Limit implements [algo.Policy].
func (p Policy) Limit() algo.Limit { return p.opts().Limit }

// String returns the policy's spec, such as "tokenbucket 10/s burst=50 refill=interval".
func (p Policy) String() string {
	o := p.opts()
	s := "tokenbucket " + o.Limit.String()
	if b := o.burst(); b != o.Limit.Count {
		s += " burst=" + strconv.FormatInt(b, 10)
	}
	if o.Refill != Continuous {
		s += " refill=" + o.Refill.String()
	}
	if c := o.cost(); c != 1 {
		s += " cost=" + strconv.FormatInt(c, 10)
	}
	return s
}
