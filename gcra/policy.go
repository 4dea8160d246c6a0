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
func (p Policy) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return p.apply(Step, dst, state, now, cost)
}

// Refund implements [algo.Policy].
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return p.apply(Refund, dst, state, now, cost)
}

// Charge implements [algo.Policy].
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return p.apply(Charge, dst, state, now, cost)
}

// Peek implements [algo.Policy].
func (p Policy) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	s, o, err := p.open(state, cost)
	if err != nil {
		return algo.Result{}, err
	}
	return Peek(s, now, o), nil
}

type move func(State, time.Time, Options) (State, algo.Result)

// apply makes a move on encoded state. A move that changes nothing returns the very bytes.
func (p Policy) apply(move move, dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	s, o, err := p.open(state, cost)
	if err != nil {
		return dst, algo.Result{}, err
	}
	next, r := move(s, now, o)
	if next == s {
		return append(dst, state...), r, nil
	}
	return AppendState(dst, next), r, nil
}

func (p Policy) open(state []byte, cost int64) (State, Options, error) {
	o := p.options
	switch {
	case cost < 0:
		return State{}, o, algo.ErrCost
	case cost > 0:
		o.Cost = cost
	}
	s, err := ParseState(state)
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
