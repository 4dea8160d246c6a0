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

// WaitN waits until n calls are allowed, first come, first served. n is at least 1.
//
// WaitN first calls AllowN. After a denial it sleeps for RetryAfter, by the clock of the machine, and calls AllowN again. Calls
// that come with the same keys under the enforced rules wait behind it, so a call with a large cost is not overtaken. Only the
// first of them asks the store: once for each allowed call, or twice if it needs more than one unit. The order holds within one
// Limiter. Across limiters and processes the first ones compete, and AllowN does not wait for them. If the store fails, the
// calls that wait ask it in any order.
//
// If RetryAfter, or that of the first call, ends after the deadline of ctx, WaitN returns the denial at once, with an error that
// wraps [context.DeadlineExceeded]. A call that waits behind another one fails when ctx ends, with the Rule and RetryAfter of the
// first call. If no wait helps, WaitN returns at once, and the error also wraps [ErrExceedsCapacity]. In all these cases nothing
// was charged. Other errors are those of AllowN; see [Limiter].
//
// WaitN calls the functions of the rules once more than AllowN.
func (l *Limiter[T]) WaitN(ctx context.Context, in T, n int64) (d Decision, err error) {
	w, failed := l.newWaiter(in, n), false
	defer func() { l.lines.leave(w, &d, failed) }() // also if a function of the rules panics
	for waits := l.lines.join(w); ; waits = true {
		if waits {
			head, err := l.lines.wait(ctx, w)
			if err != nil && d.Rule == "" {
				d = head
			}
			if err != nil {
				return d, tooLong(&head, err)
			}
		}
		d, err = l.AllowN(ctx, in, n)
		failed = d.Degraded || err != nil && isFailure(err) && !hasEnded(ctx)
		switch {
		case err != nil || d.Allowed:
			return d, err
		case d.RetryAfter == algo.Never:
			return d, fmt.Errorf("%w of rule %q: %w", ErrExceedsCapacity, d.Rule, context.DeadlineExceeded)
		}
		l.lines.deny(w, &d)
		if retrywait.ExceedsDeadline(ctx, d.RetryAfter) {
			return d, tooLong(&d, context.DeadlineExceeded)
		}
	}
}

func tooLong(denial *Decision, err error) error {
	return fmt.Errorf("sluice: rule %q denies for %s: %w", denial.Rule, denial.RetryAfter, err)
}
