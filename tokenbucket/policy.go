package tokenbucket

import (
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Policy is the algorithm with its options bound: Step and its siblings over
// encoded state. Make one with [New]; the zero Policy denies everything. Two that
// are alike have the same String; == tells only whether one is a copy of the other.
type Policy struct{ options *Options } // a pointer, so that an algo.Policy holds it as it is

var _ algo.Policy = Policy{}

// New binds the options. It returns an error that names the field where they
// are not valid; a negative cost is [algo.ErrCost].
func New(o Options) (Policy, error) {
	if err := o.Validate(); err != nil {
		return Policy{}, err
	}
	return Policy{&o}, nil
}

// Options returns the options the policy was made with.
func (p Policy) Options() Options { return *p.bound() }

func (p Policy) bound() *Options {
	if p.options == nil {
		return &Options{}
	}
	return p.options
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

// decide appends the next state, or the very same bytes where nothing is paid; a
// look appends nothing.
func (p Policy) decide(dst, state []byte, now time.Time, cost int64, r *algo.Result, to purpose) ([]byte, error) {
	if cost < 0 {
		return dst, algo.ErrCost
	}
	s, err := ParseState(state)
	if err != nil {
		return dst, err
	}
	r.Cost = cost
	next := decide(s, now, p.bound(), r, to)
	switch {
	case to == look:
		return dst, nil
	case r.Paid == 0:
		return append(dst, state...), nil
	}
	return next.append(dst), nil
}

// Bound implements [algo.Policy]; see [Bound].
func (p Policy) Bound(interval time.Duration) int64 { return Bound(*p.bound(), interval) }

// Limit implements [algo.Policy].
func (p Policy) Limit() algo.Limit { return p.bound().Limit }

// String is the policy's spec, such as "tokenbucket 10/s burst=50 refill=interval".
func (p Policy) String() string {
	o := p.bound()
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
