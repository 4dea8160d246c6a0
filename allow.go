package sluice

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/retrywait"
	"github.com/sluice-go/sluice/storage/driver"
)

// inlineRules is the most rules whose results are on the stack of the caller of Allow.
const inlineRules = 3

type inlineResults [inlineRules]RuleResult

// Allow is AllowN for one call.
func (l *Limiter[T]) Allow(ctx context.Context, in T) (d Decision, err error) {
	d.Results = new(inlineResults)[:] // Allow is inlined, so this is on the caller's stack
	err = l.allow(ctx, in, 1, &d)
	return d, err
}

// AllowN decides whether n calls are allowed now, all or none. If they are, each rule charges n times its Cost. n is at least 1.
func (l *Limiter[T]) AllowN(ctx context.Context, in T, n int64) (d Decision, err error) {
	d.Results = new(inlineResults)[:]
	err = l.allow(ctx, in, n, &d)
	return d, err
}

// allow writes the decision to d. d is zero but for d.Results, which has memory for
// inlineRules results. No pointer into that memory escapes. The decision is not returned,
// because each copy of it takes time.
func (l *Limiter[T]) allow(ctx context.Context, in T, n int64, d *Decision) (err error) {
	if l.options.Observer == nil {
		return l.decideInput(ctx, driver.Allow, in, n, l.rules, d)
	}
	// The observer can keep the decision, so the results need their own memory.
	*d, err = l.do(ctx, driver.Allow, in, n, l.rules)
	return err
}

// ErrExceedsCapacity is the error of Wait and WaitN if a rule never allows the cost.
var ErrExceedsCapacity = errors.New("sluice: the cost exceeds the capacity")

// Wait is WaitN for one call.
func (l *Limiter[T]) Wait(ctx context.Context, in T) (Decision, error) {
	return l.WaitN(ctx, in, 1)
}

// WaitN calls AllowN until n calls are allowed, and sleeps for RetryAfter after each denial, by the clock of the machine. n is
// at least 1. It returns the denial at once, with an error that wraps [context.DeadlineExceeded], if RetryAfter ends after the
// deadline of ctx. If no wait helps, the error also wraps [ErrExceedsCapacity]. Nothing was charged then, nor if ctx is
// cancelled while WaitN sleeps. Other errors are those of AllowN; see [Limiter].
func (l *Limiter[T]) WaitN(ctx context.Context, in T, n int64) (Decision, error) {
	for {
		d, err := l.AllowN(ctx, in, n)
		if err != nil || d.Allowed {
			return d, err
		}
		if d.RetryAfter == algo.Never {
			return d, fmt.Errorf("%w of rule %q: %w", ErrExceedsCapacity, d.Rule, context.DeadlineExceeded)
		}
		if err := retrywait.Sleep(ctx, d.RetryAfter); err != nil {
			return d, fmt.Errorf("sluice: rule %q denies for %s: %w", d.Rule, d.RetryAfter, err)
		}
	}
}
