package fixedwindow

import (
	"strconv"
	"strings"
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
	if !step(&s, algo.Instant(now), &o, &r) {
		return append(dst, state...), r, nil
	}
	return s.append(dst), r, nil
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
	if !refund(&s, algo.Instant(now), &o, &r) {
		return append(dst, state...), r, nil
	}
	return s.append(dst), r, nil
}

// Charge implements [algo.Policy].
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) (next []byte, r algo.Result, err error) {
	s, o, err := p.open(state, cost)
	if err != nil {
		return dst, r, err
	}
	if !charge(&s, algo.Instant(now), &o, &r) {
		return append(dst, state...), r, nil
	}
	return s.append(dst), r, nil
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

// String is the policy's spec, such as "fixedwindow 5/h align=clock offset=15m".
func (p Policy) String() string {
	o := p.options
	s := "fixedwindow " + o.Limit.String()
	if o.Align != AlignFirst {
		s += " align=" + o.Align.String()
	}
	if o.Offset != 0 {
		s += " offset=" + short(o.Offset)
	}
	if c := o.cost(); c != 1 {
		s += " cost=" + strconv.FormatInt(c, 10)
	}
	return s
}

// short is d without the zero units at its end: 15m rather than 15m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
