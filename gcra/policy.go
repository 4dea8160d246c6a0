package gcra

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
	next, err = p.StepInto(dst, state, algo.Instant(now), cost, &r)
	if err == nil && r.Paid == 0 {
		next = append(dst, state...)
	}
	return next, r, err
}

// StepInto is Step for a store that has states in memory and results to fill in:
// at is what [algo.Instant] makes of the time, r comes zero, and dst may be
// state[:0]. Where nothing changed it returns state itself.
func (p Policy) StepInto(dst, state []byte, at, cost int64, r *algo.Result) (next []byte, err error) {
	s, err := open(state, cost)
	if err != nil {
		return dst, err
	}
	r.Cost = cost
	moved := decide(s, at, p.bound(), r, pay)
	if r.Paid == 0 {
		return state, nil
	}
	return moved.append(dst), nil
}

// Peek implements [algo.Policy].
func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	s, err := open(state, cost)
	if err != nil {
		return r, err
	}
	r.Cost = cost
	decide(s, algo.Instant(now), p.bound(), &r, look)
	return r, nil
}

// Refund implements [algo.Policy].
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.adjust(dst, state, now, cost, &r, back)
	return next, r, err
}

// Charge implements [algo.Policy].
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	next, err = p.adjust(dst, state, now, cost, &r, more)
	return next, r, err
}

// adjust appends the next state, or the very same bytes where nothing changed.
func (p Policy) adjust(dst, state []byte, now time.Time, cost int64, r *algo.Result, way direction) ([]byte, error) {
	s, err := open(state, cost)
	if err != nil {
		return dst, err
	}
	r.Cost = cost
	next := adjust(s, algo.Instant(now), p.bound(), r, way)
	if next == s {
		return append(dst, state...), nil
	}
	return next.append(dst), nil
}

func open(state []byte, cost int64) (State, error) {
	if cost < 0 {
		return State{}, algo.ErrCost
	}
	return ParseState(state)
}

// Bound implements [algo.Policy]; see [Bound].
func (p Policy) Bound(interval time.Duration) int64 { return Bound(*p.bound(), interval) }

// Limit implements [algo.Policy].
func (p Policy) Limit() algo.Limit { return p.bound().Limit }

// String is the policy's spec, such as "gcra 100/m burst=20".
func (p Policy) String() string {
	s := "gcra " + p.bound().Limit.String()
	if b := p.bound().burst(); b != p.bound().Limit.Count {
		s += " burst=" + strconv.FormatInt(b, 10)
	}
	if c := p.bound().cost(); c != 1 {
		s += " cost=" + strconv.FormatInt(c, 10)
	}
	return s
}
