package tokenbucket

import (
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Policy is the algorithm with its options bound: Step and its siblings over
// encoded state. Make one with [New]; the zero Policy denies everything.
type Policy struct {
	options Options
	terms   terms
}

var _ algo.Policy = Policy{}

// New binds the options. It returns an error that names the field where they
// are not valid; a negative cost is [algo.ErrCost].
func New(o Options) (Policy, error) {
	if err := o.Validate(); err != nil {
		return Policy{}, err
	}
	return Policy{o, o.terms()}, nil
}

// Options returns the options the policy was made with.
func (p Policy) Options() Options { return p.options }

// Step implements [algo.Policy].
func (p Policy) Step(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	var s, to State
	if err = p.open(&s, state, &cost); err != nil {
		return dst, r, err
	}
	if !step(&to, &s, algo.Instant(now), &p.terms, cost, &r) {
		return append(dst, state...), r, nil
	}
	return to.append(dst), r, nil
}

// Peek implements [algo.Policy].
func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	var s State
	if err = p.open(&s, state, &cost); err != nil {
		return r, err
	}
	peek(&s, algo.Instant(now), &p.terms, cost, &r)
	return r, nil
}

// Refund implements [algo.Policy].
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	var s, to State
	if err = p.open(&s, state, &cost); err != nil {
		return dst, r, err
	}
	if !refund(&to, &s, algo.Instant(now), &p.terms, cost, &r) {
		return append(dst, state...), r, nil
	}
	return to.append(dst), r, nil
}

// Charge implements [algo.Policy].
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	var s, to State
	if err = p.open(&s, state, &cost); err != nil {
		return dst, r, err
	}
	if !charge(&to, &s, algo.Instant(now), &p.terms, cost, &r) {
		return append(dst, state...), r, nil
	}
	return to.append(dst), r, nil
}

// open decodes the state, and puts the options' cost in the place of none.
func (p *Policy) open(s *State, state []byte, cost *int64) error {
	if *cost < 0 {
		return algo.ErrCost
	}
	if *cost == 0 {
		*cost = p.options.cost()
	}
	var err error
	*s, err = ParseState(state)
	return err
}

// Bound implements [algo.Policy]; see [Bound].
func (p Policy) Bound(interval time.Duration) int64 { return Bound(p.options, interval) }

// Limit implements [algo.Policy].
func (p Policy) Limit() algo.Limit { return p.options.Limit }

// String is the policy's spec, such as "tokenbucket 10/s burst=50 refill=interval".
func (p Policy) String() string {
	o := p.options
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
