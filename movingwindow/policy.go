package movingwindow

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
type Policy struct{ of *window } // one pointer, so converting a Policy to an interface does not allocate

var _ algo.Portable = Policy{}

// New returns a policy with the options. If they are not valid, the error names the field.
// For a negative cost the error wraps [algo.ErrCost].
func New(o Options) (Policy, error) {
	if err := o.Validate(); err != nil {
		return Policy{}, err
	}
	w := newWindow(&o)
	return Policy{&w}, nil
}

// Options returns the options that were passed to New.
func (p Policy) Options() Options { return *p.window().Options }

func (p Policy) window() *window {
	if p.of == nil {
		return &window{Options: &Options{}}
	}
	return p.of
}

// Step implements [algo.Policy].
func (p Policy) Step(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.decide(dst, state, now, cost, &r, algorithm.Step)
	return next, r, err
}

// Peek implements [algo.Policy].
func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	_, err = p.decide(nil, state, now, cost, &r, algorithm.Peek)
	return r, err
}

// Refund implements [algo.Policy].
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.decide(dst, state, now, cost, &r, algorithm.Refund)
	return next, r, err
}

// Charge implements [algo.Policy].
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.decide(dst, state, now, cost, &r, algorithm.Charge)
	return next, r, err
}

// decide appends the next state to dst. For a Peek it appends nothing.
func (p Policy) decide(dst, state []byte, now time.Time, cost int64, r *algo.Result, op algorithm.Op) ([]byte, error) {
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
	case op == algorithm.Peek:
		return dst, nil
	}
	return append(dst, state...), nil
}

// Bound implements [algo.Policy]. The package documentation has the formula. Bound returns 0 if
// interval is below 1ns.
func (p Policy) Bound(interval time.Duration) int64 {
	o := p.Options()
	switch {
	case interval < 1 || p.of == nil:
		return 0
	case interval == 1:
		return o.Limit.Count
	}
	// The worst case takes all units in the last instant of a slot.
	limit, n, width := o.Limit.Count, int64(o.slots()), o.width()
	between, into := (int64(interval)-2)/width, (int64(interval)-2)%width
	if o.Trailing == Whole {
		return u128.Mul(limit, between/(n+1)+(between%(n+1)+2+n)/(n+1)).Int64()
	}
	between -= n - 1
	switch {
	case between < 0:
		return limit
	case between%n != 0:
		return u128.Mul(limit, 2+between/n).Int64()
	}
	part, _ := u128.Mul(limit, into).DivMod(width)
	return u128.Mul(limit, 1+between/n).Add(u128.From(part)).Int64()
}

// Limit implements [algo.Policy].
func (p Policy) Limit() algo.Limit { return p.Options().Limit }

// String returns the policy's spec, such as "movingwindow 100/m slots=12 trailing=whole".
func (p Policy) String() string {
	o := p.Options()
	return algorithm.Spec("movingwindow", o.Limit, o.Cost,
		algorithm.Option{Name: "slots", Value: o.slots(), Default: 1},
		algorithm.Option{Name: "trailing", Value: o.Trailing, Default: Weighted})
}

var (
	//go:embed step.lua
	stepLua string
	//go:embed step.sql
	stepSQL string
)

// Program implements [algo.Portable]. There is no program if Count is 2^52 or more, if a slot is
// 2^51 ns (26 days) or longer, or if the window and one slot together are 2^53 ns (104 days) or
// longer.
func (p Policy) Program() (algo.Program, bool) {
	w := p.window()
	if w.slots == 0 || w.Limit.Count >= algo.MaxExact/2 || w.width >= algo.MaxExact/4 ||
		w.width*int64(w.slots+1) >= algo.MaxExact {
		return algo.Program{}, false
	}
	return algo.Program{Name: "movingwindow", Lua: stepLua, SQL: stepSQL,
		Args: []int64{w.Limit.Count, w.width, int64(w.slots), int64(w.Trailing)}}, true
}
