package sluice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// AllowN decides whether n calls are allowed now, all or none. If they are, each rule charges n times its Cost.
func (l *Limiter[T]) AllowN(ctx context.Context, in T, n int64) (d Decision, err error) {
	d.Results = new(inlineResults)[:]
	err = l.allow(ctx, in, n, &d)
	return d, err
}

// allow writes the decision to d. d is zero but for d.Results, which has memory for
// inlineRules results. No pointer into that memory escapes. The decision is not returned,
// because each copy of it takes time.
func (l *Limiter[T]) allow(ctx context.Context, in T, n int64, d *Decision) (err error) {
	switch {
	case l.purses != nil && n == 1:
		*d, err = l.observed(ctx, driver.Allow, func() (Decision, error) { return l.allowPrepaid(ctx, in) })
	case l.options.Observer != nil: // it can keep the decision, so the results need their own memory
		*d, err = l.do(ctx, driver.Allow, in, n, l.rules)
	default:
		err = l.decideInput(ctx, driver.Allow, in, n, l.rules, d)
	}
	return err
}

// AllowUpTo allows as many of n calls as the rules allow now, from 0 to n: the same number under every rule.
//
// The decision is that of AllowN for the allowed calls or, if there are none, the denial of one call. A shadow rule charges as
// many of the allowed calls as it would allow. If these are not all, its result is a denial, and Paid is what it charged. While
// the store fails, FailOpen allows all n calls.
func (l *Limiter[T]) AllowUpTo(ctx context.Context, in T, n int64) (calls int64, d Decision, err error) {
	d, err = l.observed(ctx, driver.Allow, func() (d Decision, err error) {
		if n < 1 {
			return d, countError(n)
		}
		items, err := l.gather(driver.Allow, in, 1, l.rules, &d, nil)
		if err != nil {
			return d, err
		}
		calls, err = l.decide(ctx, driver.Allow, n, items, &d, l.options.OnFailure)
		return d, err
	})
	return calls, d, err
}

// ErrExceedsCapacity is the error of Wait and WaitN if a rule never allows the cost.
var ErrExceedsCapacity = errors.New("sluice: the cost exceeds the capacity")

// Wait is WaitN for one call.
func (l *Limiter[T]) Wait(ctx context.Context, in T) (Decision, error) {
	return l.WaitN(ctx, in, 1)
}

// WaitN waits until n calls are allowed. Within one Limiter, calls with the same keys under the same enforced rules are served
// first come, first served. After a denial, the first of them sleeps for RetryAfter by the clock of the machine, and the others
// wait behind it without a round trip. Other calls, and other processes, compete with them. If the burst is smaller than what is
// refilled in two round trips, waiting calls get less than the rate.
//
// If RetryAfter ends after the deadline of ctx, WaitN returns the denial at once, with an error that wraps
// [context.DeadlineExceeded]. If no wait helps, the error also wraps [ErrExceedsCapacity]. Nothing was charged then. Behind
// another call, the denial has only Rule and RetryAfter, those of that call.
//
// WaitN refuses inflight and penalty rules with a RuleError: it cannot release units, and asking too early would begin a
// penalty. If units come back early, as by a Refund, WaitN may notice only at the RetryAfter.
func (l *Limiter[T]) WaitN(ctx context.Context, in T, n int64) (d Decision, err error) {
	w, err := l.newWaiter(ctx, in, n)
	if err != nil {
		return l.observed(ctx, driver.Allow, func() (Decision, error) { return Decision{}, err })
	}
	var asked time.Time
	defer func() { l.waits.leave(w, &d, asked, false) }() // if a policy panics
	l.waits.join(w)
	for {
		if head, err := l.waits.wait(ctx, w); err != nil {
			l.waits.leave(w, &head, asked, false) // the calls behind it do not wait for the observer, here and below
			d, _ = l.observed(ctx, driver.Allow, func() (Decision, error) { return head, nil })
			return d, tooLong(&d, err)
		}
		asked = time.Now()
		exceeds := false
		d, err = l.observed(ctx, driver.Allow, func() (d Decision, err error) {
			d, err = l.decideWaiter(ctx, w)
			if err != nil || d.Allowed || d.RetryAfter == algo.Never {
				isOpen := d.Degraded && len(d.Results) == 0 // by FailOpen
				l.waits.leave(w, &d, asked, isOpen || err != nil && isFailure(err) && !hasEnded(ctx))
			} else {
				exceeds = retrywait.ExceedsDeadline(ctx, d.RetryAfter)
				l.waits.deny(w, &d, exceeds)
			}
			return d, err
		})
		switch {
		case err != nil || d.Allowed:
			return d, err
		case d.RetryAfter == algo.Never:
			return d, exceedsCapacity(&d)
		case exceeds:
			return d, tooLong(&d, context.DeadlineExceeded)
		}
	}
}

func tooLong(denial *Decision, err error) error {
	return fmt.Errorf("sluice: rule %q denies for %s: %w", denial.Rule, denial.RetryAfter, err)
}

func exceedsCapacity(denial *Decision) error {
	i := slices.IndexFunc(denial.Results, func(r RuleResult) bool { return r.Rule == denial.Rule })
	r := &denial.Results[i]
	return fmt.Errorf("%w: rule %q allows at most %d at once, not %d: %w", ErrExceedsCapacity, r.Rule, r.Limit, r.Cost, context.DeadlineExceeded)
}
