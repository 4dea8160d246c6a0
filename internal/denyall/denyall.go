// Package denyall provides a policy that denies every call. A rule uses it for a call that does not
// identify its caller.
package denyall

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Policy denies every call and changes no state. The embedded policy is the one that the rule
// applies to identified callers. Policy has its name in reports.
type Policy struct{ algo.Policy }

// Step implements algo.Policy. It reports a capacity of 0, so a retry never succeeds.
func (Policy) Step(dst, state []byte, _ time.Time, cost int64) ([]byte, algo.Result, error) {
	if cost < 1 {
		return dst, algo.Result{}, algo.ErrCost
	}
	return append(dst, state...), algo.Result{Cost: cost, RetryAfter: algo.Never, Fresh: len(state) == 0}, nil
}

// Peek implements algo.Policy.
func (p Policy) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	_, r, err := p.Step(nil, state, now, cost)
	return r, err
}

// Refund implements algo.Policy. It changes nothing, because nothing was paid.
func (p Policy) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return p.Charge(dst, state, now, cost)
}

// Charge implements algo.Policy. It charges nothing, because the caller is unknown.
func (p Policy) Charge(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	next, r, err := p.Step(dst, state, now, cost)
	r.Allowed, r.RetryAfter = err == nil, 0
	return next, r, err
}

// Bound implements algo.Policy.
func (Policy) Bound(time.Duration) int64 { return 0 }
