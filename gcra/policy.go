package gcra

import (
	_ "embed"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// Policy implements [algo.Portable]. The zero Policy denies everything.
type Policy struct {
	of *prepared // the only field, so converting a Policy to an interface does not allocate
}

// prepared holds the options, and the arguments of decide that New computes from them.
type prepared struct {
	Options
	args arguments
}

var _ algo.Portable = Policy{}

// New returns a policy, or the error of [Options.Validate].
func New(o Options) (Policy, error) {
	if err := o.Validate(); err != nil {
		return Policy{}, err
	}
	if o.Cost > 1 {
		return Policy{}, fmt.Errorf("gcra: Cost must be 0 or 1 for a Policy, got %d; pass the cost to the methods of the Policy", o.Cost)
	}
	return Policy{&prepared{o, o.arguments()}}, nil
}

func (p Policy) Options() Options { return p.prepared().Options }

func (p Policy) prepared() *prepared { return policy.OrNew(p.of) }

func (p Policy) Step(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.apply(policy.Step, dst, state, algo.Instant(now), cost, &r)
	return next, r, err
}

func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	_, err = p.apply(policy.Peek, nil, state, algo.Instant(now), cost, &r)
	return r, err
}

func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.apply(policy.Refund, dst, state, algo.Instant(now), cost, &r)
	return next, r, err
}

func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.apply(policy.Charge, dst, state, algo.Instant(now), cost, &r)
	return next, r, err
}

// apply is what the methods have in common. at is an instant of [algo.Instant]. r must point to a zero Result. dst may be
// state[:0]. For a Peek, apply appends nothing.
func (p Policy) apply(op policy.Op, dst, state []byte, at, cost int64, r *algo.Result) (next []byte, err error) {
	if cost < 1 {
		return dst, algo.ErrCost
	}
	s, err := ParseState(state)
	if err != nil {
		return dst, err
	}
	own := p.prepared()
	r.Cost = cost
	after := decide(&own.args, s, at, r, op)
	switch {
	case op == policy.Peek:
		return dst, nil
	case r.Paid == 0:
		return append(dst, state...), nil
	}
	return policy.Usage(after).Append(dst, tag), nil
}

func (p Policy) Bound(interval time.Duration) int64 {
	args := p.prepared().args
	if interval < 1 || args.unit == 0 {
		return 0
	}
	return policy.Sum(args.burst, policy.MulDiv(algo.Microseconds(interval), args.drain, args.unit))
}

func (p Policy) Limit() algo.Limit { return p.prepared().Limit }

// String returns the spec, such as "gcra 100/m burst=20".
func (p Policy) String() string {
	o := p.prepared()
	return policy.Spec("gcra", o.Limit,
		policy.Option{Name: "burst", Value: o.burst(), Default: o.Limit.Count})
}

var (
	//go:embed step.lua
	stepLua string
	//go:embed step.sql
	stepSQL string
)

func (p Policy) Program() (algo.Program, bool) {
	args := p.prepared().args
	return algo.Program{Name: "gcra", Lua: stepLua, SQL: stepSQL, Args: []int64{args.burst, args.unit, args.drain}}, args.unit > 0
}
