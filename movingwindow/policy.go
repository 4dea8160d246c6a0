package movingwindow

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
		return Policy{}, fmt.Errorf("movingwindow: Cost must be 0 or 1 for a Policy, got %d; pass the cost to the methods of the Policy", o.Cost)
	}
	own := &prepared{Options: o}
	o.arguments(&own.args)
	return Policy{own}, nil
}

func (p Policy) Options() Options { return p.prepared().Options }

func (p Policy) prepared() *prepared { return policy.OrNew(p.of) }

func (p Policy) Step(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.decide(dst, state, now, cost, &r, policy.Step)
	return next, r, err
}

func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	_, err = p.decide(nil, state, now, cost, &r, policy.Peek)
	return r, err
}

func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.decide(dst, state, now, cost, &r, policy.Refund)
	return next, r, err
}

func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.decide(dst, state, now, cost, &r, policy.Charge)
	return next, r, err
}

// decide appends the next state to dst. For a Peek it appends nothing.
func (p Policy) decide(dst, state []byte, now time.Time, cost int64, r *algo.Result, op policy.Op) ([]byte, error) {
	if cost < 1 {
		return dst, algo.ErrCost
	}
	var s State
	if err := s.parse(state); err != nil {
		return dst, err
	}
	own := p.prepared()
	r.Cost = cost
	switch changed := decide(&own.args, &s, algo.Instant(now), r, op); {
	case op == policy.Peek:
		return dst, nil
	case changed:
		return s.append(dst), nil
	}
	return append(dst, state...), nil
}

func (p Policy) Bound(interval time.Duration) int64 {
	args := p.prepared().args
	if interval < 1 || args.limit == 0 {
		return 0
	}
	micros, limit, n, width := algo.Microseconds(interval), args.limit, args.slots, args.width
	if micros == 0 {
		return limit
	}
	// The worst case takes all units in the last instant of a slot.
	between, into := (micros-1)/width, (micros-1)%width
	if p.prepared().Trailing == Whole {
		return policy.MulDiv(limit, between/(n+1)+(between%(n+1)+2+n)/(n+1), 1)
	}
	between -= n - 1
	switch {
	case between < 0:
		return limit
	case between%n != 0:
		return policy.MulDiv(limit, 2+between/n, 1)
	}
	return policy.Sum(policy.MulDiv(limit, 1+between/n, 1), policy.MulDiv(limit, into, width))
}

func (p Policy) Limit() algo.Limit { return p.Options().Limit }

// String returns the spec, such as "movingwindow 100/m slots=12 trailing=whole".
func (p Policy) String() string {
	o := p.prepared()
	return policy.Spec("movingwindow", o.Limit,
		policy.Option{Name: "slots", Value: max(o.Slots, 1), Default: 1},
		policy.Option{Name: "trailing", Value: o.Trailing, Default: Weighted})
}

var (
	//go:embed step.lua
	stepLua string
	//go:embed step.sql
	stepSQL string
)

func (p Policy) Program() (algo.Program, bool) {
	args := p.prepared().args
	return algo.Program{Name: "movingwindow", Lua: stepLua, SQL: stepSQL,
		Args: []int64{args.limit, args.width, args.slots, args.grain, args.weight, args.most, args.paidAt}}, args.limit > 0
}
