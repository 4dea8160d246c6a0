package tokenbucket

import (
	_ "embed"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/u128"
)

// Policy is the algorithm with its options. Its methods take and return encoded states. Make a
// Policy with [New]; the zero Policy denies everything. Compare policies by String: == is true only
// for copies of the same Policy.
type Policy struct{ options *Options } // one pointer, so converting a Policy to an interface does not allocate

var _ algo.Portable = Policy{}

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
	next, err = p.Apply(algorithm.Step, dst, state, algo.Instant(now), cost, &r)
	return next, r, err
}

// Peek implements [algo.Policy].
func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	_, err = p.Apply(algorithm.Peek, nil, state, algo.Instant(now), cost, &r)
	return r, err
}

// Refund implements [algo.Policy].
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.Apply(algorithm.Refund, dst, state, algo.Instant(now), cost, &r)
	return next, r, err
}

// Charge implements [algo.Policy].
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.Apply(algorithm.Charge, dst, state, algo.Instant(now), cost, &r)
	return next, r, err
}

// Apply is for package compose, because it decides faster than the other methods. at is the time, as
// [algo.Instant] returns it. Apply writes the result to r, which must point to a zero Result. dst
// may be state[:0]. For a Peek, Apply appends nothing to dst.
func (p Policy) Apply(op algorithm.Op, dst, state []byte, at, cost int64, r *algo.Result) (next []byte, err error) {
	if cost < 0 {
		return dst, algo.ErrCost
	}
	s, err := ParseState(state)
	if err != nil {
		return dst, err
	}
	r.Cost = cost
	after := decide(s, at, p.opts(), r, op)
	switch {
	case op == algorithm.Peek:
		return dst, nil
	case r.Paid == 0:
		return append(dst, state...), nil
	}
	return after.append(dst), nil
}

// Bound implements [algo.Policy]. The package documentation has the formula. Bound returns 0 if
// interval is below 1ns.
func (p Policy) Bound(interval time.Duration) int64 {
	o := p.opts()
	if interval < 1 || p.options == nil {
		return 0
	}
	burst, length, period := o.burst(), int64(interval)-1, int64(o.Limit.Period)
	if o.Refill == Continuous {
		flow, _ := u128.Mul(o.Limit.Count, length).DivMod(period)
		return u128.From(burst).Add(u128.From(flow)).Int64()
	}
	flow := u128.Mul(min(o.Limit.Count, burst), u128.From(length).CeilDiv(period))
	units := u128.From(burst).Add(flow)
	if length%period > 0 {
		units = units.Sub(u128.From(1)) // it was taken before the interval, and started the first refill's wait
	}
	return units.Int64()
}

// Limit implements [algo.Policy].
func (p Policy) Limit() algo.Limit { return p.opts().Limit }

// String returns the policy's spec, such as "tokenbucket 10/s burst=50 refill=interval".
func (p Policy) String() string {
	o := p.opts()
	return algorithm.Spec("tokenbucket", o.Limit, o.Cost,
		algorithm.Option{Name: "burst", Value: o.burst(), Default: o.Limit.Count},
		algorithm.Option{Name: "refill", Value: o.Refill, Default: Continuous})
}

var (
	//go:embed step.lua
	stepLua string
	//go:embed step.sql
	stepSQL string
)

// Program implements [algo.Portable]. There is no program in these cases:
//
//   - Period is 2^53 ns (104 days) or longer, Count is 2^53 or more, or Burst is 2^52 or more.
//   - Refill is Continuous, and Burst*Period/d is 2^52 or more. Period is in nanoseconds, and d is
//     the greatest common divisor of Count and Period.
//   - Refill is Interval, and refilling the burst takes 2^52 ns (52 days) or longer.
func (p Policy) Program() (algo.Program, bool) {
	o := p.opts()
	if o.Validate() != nil || int64(o.Limit.Period) >= algo.MaxExact || o.Limit.Count >= algo.MaxExact {
		return algo.Program{}, false
	}
	divisor := u128.GCD(o.speed(), int64(o.Limit.Period))
	period := int64(o.Limit.Period) / divisor
	if o.burst() >= algo.MaxExact/2 || !u128.Mul(o.refills(o.burst()), period).Less(u128.From(algo.MaxExact/2)) {
		return algo.Program{}, false
	}
	return algo.Program{Name: "tokenbucket", Lua: stepLua, SQL: stepSQL,
		Args: []int64{o.speed() / divisor, period, divisor, o.burst(), o.batch(), int64(o.Refill)}}, true
}
