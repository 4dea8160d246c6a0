// Package noquota has the policy for a call that a rule refuses whatever was used, because
// the call does not say who the caller is.
package noquota

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Policy denies every call and changes no state. In reports it stands for the policy of
// the rule, which would have decided if the caller were known.
type Policy struct{ algo.Policy }

// Step implements algo.Policy.
func (Policy) Step(dst, state []byte, _ time.Time, cost int64) ([]byte, algo.Result, error) {
	if cost < 0 {
		return dst, algo.Result{}, algo.ErrCost
	}
	return append(dst, state...), denied(state, max(cost, 1)), nil
}

// Peek implements algo.Policy.
func (p Policy) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	_, r, err := p.Step(nil, state, now, cost)
	return r, err
}

// Refund implements algo.Policy: nothing was paid, so there is nothing to give back.
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return p.Charge(dst, state, now, cost)
}

// Charge implements algo.Policy. It charges nothing, because there is nobody to charge.
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	next, r, err := p.Step(dst, state, now, cost)
	r.Allowed, r.RetryAfter = err == nil, 0
	return next, r, err
}

// Bound implements algo.Policy.
func (Policy) Bound(time.Duration) int64 { return 0 }

// denied is a result whose capacity is 0, so that no waiting helps.
func denied(state []byte, cost int64) algo.Result {
	return algo.Result{Cost: cost, RetryAfter: algo.Never, Fresh: len(state) == 0}
}
