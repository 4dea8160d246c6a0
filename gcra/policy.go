package gcra

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
	next, err = p.StepInto(dst, state, algo.Instant(now), cost, &r)
	if err == nil && r.Paid == 0 {
		next = append(dst, state...)
	}
	return next, r, err
}

// StepInto is Step for a store that holds states in memory. at is the time, as
// [algo.Instant] returns it. StepInto fills in r, which must be zero. dst may be
// state[:0]. If the state does not change, StepInto returns state.
func (p Policy) StepInto(dst, state []byte, at, cost int64, r *algo.Result) (next []byte, err error) {
	s, err := parse(state, cost)
	if err != nil {
		return dst, err
	}
	r.Cost = cost
	after := decide(s, at, p.opts(), r, opStep)
	if r.Paid == 0 {
		return state, nil
	}
	return after.append(dst), nil
}

// Peek implements [algo.Policy].
func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	s, err := parse(state, cost)
	if err != nil {
		return r, err
	}
	r.Cost = cost
	decide(s, algo.Instant(now), p.opts(), &r, opPeek)
	return r, nil
}

// Refund implements [algo.Policy].
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.adjust(dst, state, now, cost, &r, giveBack)
	return next, r, err
}

// Charge implements [algo.Policy].
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.adjust(dst, state, now, cost, &r, take)
	return next, r, err
}

// adjust appends the next state to dst, or state if nothing changed.
func (p Policy) adjust(dst, state []byte, now time.Time, cost int64, r *algo.Result, sign direction) ([]byte, error) {
	s, err := parse(state, cost)
	if err != nil {
		return dst, err
	}
	r.Cost = cost
	next := adjust(s, algo.Instant(now), p.opts(), r, sign)
	if next == s {
		return append(dst, state...), nil
	}
	return next.append(dst), nil
}

func parse(state []byte, cost int64) (State, error) {
	if cost < 0 {
		return State{}, algo.ErrCost
	}
	return ParseState(state)
}

// Bound implements [algo.Policy]; see [Bound].
func (p Policy) Bound(interval time.Duration) int64 { return Bound(*p.opts(), interval) }

// Limit implements [algo.Policy].
func (p Policy) Limit() algo.Limit { return p.opts().Limit }

// String returns the policy's spec, such as "gcra 100/m burst=20".
func (p Policy) String() string {
	s := "gcra " + p.opts().Limit.String()
	if b := p.opts().burst(); b != p.opts().Limit.Count {
		s += " burst=" + strconv.FormatInt(b, 10)
	}
	if c := p.opts().cost(); c != 1 {
		s += " cost=" + strconv.FormatInt(c, 10)
	}
	return s
}
