package fixedwindow

import (
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Policy is the algorithm with its options bound: Step and its siblings over
// encoded state. Make one with [New]; the zero Policy denies everything.
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

// StepInto is Step for a store that has states in memory and results to fill in:
// at is what [algo.Instant] makes of the time, r comes zero, and dst may be
// state[:0]. Where nothing changed it returns state itself.
func (p Policy) StepInto(dst, state []byte, at, cost int64, r *algo.Result) (next []byte, err error) {
	return p.into(dst, state, at, cost, r, pay)
}

// decide appends the next state, or the very same bytes where nothing is paid; a
// look appends nothing.
func (p Policy) decide(dst, state []byte, now time.Time, cost int64, r *algo.Result, to purpose) (next []byte, err error) {
	next, err = p.into(dst, state, algo.Instant(now), cost, r, to)
	switch {
	case err != nil || to == look:
		return dst, err
	case r.Paid == 0:
		return append(dst, state...), nil
	}
	return next, nil
}

func (p Policy) into(dst, state []byte, at, cost int64, r *algo.Result, to purpose) (next []byte, err error) {
	if cost < 0 {
		return dst, algo.ErrCost
	}
	s, err := ParseState(state)
	if err != nil {
		return dst, err
	}
	r.Cost = cost
	if !decide(&s, at, p.bound(), r, to) {
		return state, nil
	}
	return s.append(dst), nil
}

// Bound implements [algo.Policy]; see [Bound].
func (p Policy) Bound(interval time.Duration) int64 { return Bound(*p.bound(), interval) }

// Limit implements [algo.Policy].
func (p Policy) Limit() algo.Limit { return p.bound().Limit }

// String is the policy's spec, such as "fixedwindow 5/h align=clock offset=15m".
func (p Policy) String() string {
	o := p.bound()
	s := "fixedwindow " + o.Limit.String()
	if o.Align != AlignFirst {
		s += " align=" + o.Align.String()
	}
	if o.Offset != 0 {
		s += " offset=" + algo.FormatDuration(o.Offset)
	}
	if c := o.cost(); c != 1 {
		s += " cost=" + strconv.FormatInt(c, 10)
	}
	return s
}
