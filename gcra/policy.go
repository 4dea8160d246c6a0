package gcra

import (
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Policy is the algorithm with its options bound: Step and its siblings over
// encoded state. Make one with [New]; the zero Policy denies everything.
type Policy struct{ options Options }

var _ algo.Policy = Policy{}

// New binds the options. It returns an error that names the field where they
// are not valid; a negative cost is [algo.ErrCost].
func New(o Options) (Policy, error) {
	if err := o.Validate(); err != nil {
		return Policy{}, err
	}
	return Policy{o}, nil
}

// Options returns the options the policy was made with.
func (p Policy) Options() Options { return p.options }

// Step implements [algo.Policy].
func (p Policy) Step(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	s, o, err := p.open(state, cost)
	if err != nil {
		return dst, r, err
	}
	var to State
	if !step(&to, &s, algo.Instant(now), &o, &r) {
		return append(dst, state...), r, nil
	}
	return to.append(dst), r, nil
}

// Peek implements [algo.Policy].
func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	s, o, err := p.open(state, cost)
	if err != nil {
		return r, err
	}
	peek(&s, algo.Instant(now), &o, &r)
	return r, nil
}

// Refund implements [algo.Policy].
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	s, o, err := p.open(state, cost)
	if err != nil {
		return dst, r, err
	}
	var to State
	if !refund(&to, &s, algo.Instant(now), &o, &r) {
		return append(dst, state...), r, nil
	}
	return to.append(dst), r, nil
}

// Charge implements [algo.Policy].
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	s, o, err := p.open(state, cost)
	if err != nil {
		return dst, r, err
	}
	var to State
	if !charge(&to, &s, algo.Instant(now), &o, &r) {
		return append(dst, state...), r, nil
	}
	return to.append(dst), r, nil
}

func (p *Policy) open(state []byte, cost int64) (s State, o Options, err error) {
	o = p.options
	switch {
	case cost < 0:
		return s, o, algo.ErrCost
	case cost > 0:
		o.Cost = cost
	}
	s, err = ParseState(state)
	return s, o, err
}

// Bound implements [algo.Policy]; see [Bound].
func (p Policy) Bound(interval time.Duration) int64 { return Bound(p.options, interval) }

// Limit implements [algo.Policy].
func (p Policy) Limit() algo.Limit { return p.options.Limit }

// String is the policy's spec, such as "gcra 100/m burst=20".
func (p Policy) String() string {
	s := "gcra " + p.options.Limit.String()
	if b := p.options.burst(); b != p.options.Limit.Count {
		s += " burst=" + strconv.FormatInt(b, 10)
	}
	if c := p.options.cost(); c != 1 {
		s += " cost=" + strconv.FormatInt(c, 10)
	}
	return s
}
