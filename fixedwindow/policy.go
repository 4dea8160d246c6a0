package fixedwindow

import (
	_ "embed"
	"fmt"
	"math"
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
		return Policy{}, fmt.Errorf("fixedwindow: Cost must be 0 or 1 for a Policy, got %d; pass the cost to the methods of the Policy", o.Cost)
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
	return after.append(dst), nil
}

func (p Policy) Bound(interval time.Duration) int64 {
	args := p.prepared().args
	if interval < 1 || args.limit == 0 {
		return 0
	}
	micros := algo.Microseconds(interval)
	windows := micros/args.period + 1
	if micros%args.period > 0 {
		windows++
	}
	bound := policy.MulDiv(args.limit, windows, 1)
	if args.offset < 0 && micros%args.period > 0 && bound < math.MaxInt64 {
		bound-- // this unit was taken before the interval, and opened the first window
	}
	return bound
}

func (p Policy) Limit() algo.Limit { return p.prepared().Limit }

// String returns the spec, such as "fixedwindow 5/h align=clock offset=15m".
func (p Policy) String() string {
	o := p.prepared()
	return policy.Spec("fixedwindow", o.Limit,
		policy.Option{Name: "align", Value: o.Align, Default: AlignFirst},
		policy.Option{Name: "offset", Value: algo.FormatDuration(o.Offset), Default: "0s"})
}

var (
	//go:embed step.lua
	stepLua string
	//go:embed step.sql
	stepSQL string
)

func (p Policy) Program() (algo.Program, bool) {
	args := p.prepared().args
	return algo.Program{Name: "fixedwindow", Lua: stepLua, SQL: stepSQL, Args: []int64{args.limit, args.period, args.offset}}, args.limit > 0
}
