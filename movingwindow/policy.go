package movingwindow

import (
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Policy is the algorithm with its options bound: Step and its siblings over
// encoded state. Make one with [New]; the zero Policy denies everything.
type Policy struct {
	options Options
	window  window
}

var _ algo.Policy = Policy{}

// New binds the options. It returns an error that names the field where they
// are not valid; a negative cost is [algo.ErrCost].
func New(o Options) (Policy, error) {
	if err := o.Validate(); err != nil {
		return Policy{}, err
	}
	return Policy{o, o.window()}, nil
}

// Options returns the options the policy was made with.
func (p Policy) Options() Options { return p.options }

// Step implements [algo.Policy].
func (p Policy) Step(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	var s State
	w, err := p.open(&s, state, cost)
	if err != nil {
		return dst, r, err
	}
	if !step(&s, algo.Instant(now), &w, &r) {
		return append(dst, state...), r, nil
	}
	return s.append(dst), r, nil
}

// Peek implements [algo.Policy].
func (p Policy) Peek(state []byte, now time.Time, cost int64) (r algo.Result, err error) {
	var s State
	w, err := p.open(&s, state, cost)
	if err != nil {
		return r, err
	}
	peek(&s, algo.Instant(now), &w, &r)
	return r, nil
}

// Refund implements [algo.Policy].
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	var s State
	w, err := p.open(&s, state, cost)
	if err != nil {
		return dst, r, err
	}
	if !refund(&s, algo.Instant(now), &w, &r) {
		return append(dst, state...), r, nil
	}
	return s.append(dst), r, nil
}

// Charge implements [algo.Policy].
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	var s State
	w, err := p.open(&s, state, cost)
	if err != nil {
		return dst, r, err
	}
	if !charge(&s, algo.Instant(now), &w, &r) {
		return append(dst, state...), r, nil
	}
	return s.append(dst), r, nil
}

func (p *Policy) open(s *State, state []byte, cost int64) (w window, err error) {
	w = p.window
	switch {
	case cost < 0:
		return w, algo.ErrCost
	case cost > 0:
		w.cost = cost
	}
	return w, s.parse(state)
}

// Bound implements [algo.Policy]; see [Bound].
func (p Policy) Bound(interval time.Duration) int64 { return Bound(p.options, interval) }

// Limit implements [algo.Policy].
func (p Policy) Limit() algo.Limit { return p.options.Limit }

// String is the policy's spec, such as "movingwindow 100/m slots=12 trailing=whole".
func (p Policy) String() string {
	o := p.options
	s := "movingwindow " + o.Limit.String()
	if n := o.slots(); n != 1 {
		s += " slots=" + strconv.Itoa(n)
	}
	if o.Trailing != Weighted {
		s += " trailing=" + o.Trailing.String()
	}
	if c := o.cost(); c != 1 {
		s += " cost=" + strconv.FormatInt(c, 10)
	}
	return s
}
