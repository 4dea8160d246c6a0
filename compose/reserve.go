package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage/driver"
)

// ErrSettled is the error of [Reservation.Settle] and [Reservation.SettleFor] if the
// reservation is settled already.
var ErrSettled = errors.New("compose: reservation is settled already")

var errNothingReserved = errors.New("compose: there is no reservation to settle")

// Reservation is an estimated cost that was charged. Settle corrects it when the actual cost is
// known. Use a Reservation in one goroutine at a time.
type Reservation[T any] struct {
	Decision Decision // of the estimate

	limiter       *Limiter[T]
	one           *evaluation // the demands of one call, also those with an estimate of 0
	n             int64
	settled       bool
	localRefunded bool // the local limiter of FailLocal has what was not used
}

// Reserve charges n calls like AllowN, as an estimate that [Reservation.Settle] corrects. n is at
// least 1. If the calls are denied, the reservation is nil.
//
// n and the count that [Reservation.Settle] takes apply to all rules alike. If the rules count
// different units, such as requests and bytes, let Rule.Cost return the estimate in its unit,
// and settle with [Reservation.SettleFor].
//
// If Rule.Cost returns 0, the estimate under that rule is 0. Reserve then charges nothing under the
// rule, and the rule does not deny. Settle charges nothing either, but SettleFor charges the actual
// cost.
func (l *Limiter[T]) Reserve(ctx context.Context, in T, n int64) (*Reservation[T], Decision, error) {
	if l.memory != nil && ctx.Err() == nil {
		ctx = context.WithoutCancel(ctx) // like AllowN, which never waits in memory
	}
	var one *evaluation
	d, err := l.observed(driver.Allow, func() (_ Decision, err error) {
		if n < 1 {
			return Decision{}, countError(n)
		}
		if one, err = l.newEvaluation(opReserve, in, 1, l.rules); err != nil {
			return Decision{}, err
		}
		e := one.derive(driver.Allow, func(i int) (int64, bool) {
			cost := one.demands[i].Cost
			return multiply(cost, n), cost > 0
		})
		return l.decide(ctx, e, l.options.OnFailure)
	})
	if err != nil || !d.Allowed {
		return nil, d, err
	}
	return &Reservation[T]{Decision: d, limiter: l, one: one, n: n}, d, nil
}

// Settle corrects the estimate to the actual number of calls, which is at least 0. It refunds the calls
// that were not made, or charges the calls beyond the estimate, which can leave a debt. It uses the
// policies, keys and costs that Reserve found, and calls no function of the rules.
//
//   - Settle does not correct a shadow rule whose result was a denial, because that rule charged
//     nothing.
//   - If the estimate under a rule is 0, any number of calls is free under that rule.
//   - In a windowed policy the refund goes to the current window, even if the charge was in an
//     earlier window.
//   - If ctx has ended, Settle fails and the estimate stays charged. After the end of a request
//     use [context.WithoutCancel].
//
// If the Decision of Reserve is Degraded, the store usually has not recorded the charge. So Settle
// charges the full actual cost. But if its Err is storage.ErrOutcomeUnknown, the store may have
// recorded it, and Settle may charge the calls a second time. Under FailLocal, Settle also gives
// unused units back to the local limiter.
//
// Under FailOpen and FailLocal, Settle returns a Degraded decision if the store fails. The correction
// is not made then, unless the Err of the returned Decision wraps storage.ErrOutcomeUnknown: then it
// may have been made. You can call Settle again after an error or a Degraded decision. After
// storage.ErrOutcomeUnknown, this can make the correction twice.
func (r *Reservation[T]) Settle(ctx context.Context, actual int64) (Decision, error) {
	if actual < 0 && r.checkOpen() == nil {
		return Decision{}, fmt.Errorf("compose: a reservation is settled with 0 or more, got %d: %w", actual, algo.ErrCost)
	}
	return r.settle(ctx, func(one *demand) (int64, error) { return multiply(one.Cost, actual), nil })
}

// SettleFor is Settle for rules that count different units. The actual cost under each rule is
// its Cost(in), times the n of Reserve. SettleFor calls no other function of the rules, and uses
// the policies and keys that Reserve found.
//
//   - A rule without Cost is not corrected. A rule whose Cost returns the estimate is not
//     corrected either.
//   - If the estimate under a rule was 0, the full actual cost is charged.
//   - If one rule needs a charge and another a refund, one write makes both. An Observer sees
//     it as OpCharge, with a negative Cost for the refund.
func (r *Reservation[T]) SettleFor(ctx context.Context, in T) (Decision, error) {
	return r.settle(ctx, func(one *demand) (int64, error) { return r.limiter.rules[one.rule].cost(in, r.n) })
}

func (r *Reservation[T]) checkOpen() error {
	switch {
	case r == nil || r.limiter == nil:
		return errNothingReserved
	case r.settled:
		return ErrSettled
	}
	return nil
}

// settle corrects the estimate. actual returns the actual cost under a rule, given the demand
// of one call.
func (r *Reservation[T]) settle(ctx context.Context, actual func(one *demand) (int64, error)) (d Decision, err error) {
	if err := r.checkOpen(); err != nil {
		return Decision{}, err
	}
	costs := make([]int64, len(r.one.demands))
	for i := range costs {
		if costs[i], err = actual(&r.one.demands[i]); err != nil {
			return Decision{}, err
		}
	}
	if r.Decision.Degraded {
		r.refundLocal(ctx, costs)
	}
	e := r.correction(costs)
	if len(e.demands) == 0 {
		e.release()
		r.settled = true
		return r.Decision, nil
	}
	l := r.limiter
	d, err = l.observed(e.op, func() (Decision, error) { return l.decide(ctx, e, min(l.options.OnFailure, FailOpen)) })
	r.settled = err == nil && !d.Degraded
	return d, err
}

// correction returns the evaluation that corrects the store to the actual costs: a charge in
// which a refund has a negative cost, or a refund if no rule needs a charge.
func (r *Reservation[T]) correction(costs []int64) *evaluation {
	missing := func(i int) (int64, bool) {
		if r.Decision.Degraded {
			return costs[i], costs[i] != 0
		}
		cost := costs[i] - multiply(r.one.demands[i].Cost, r.n)
		return cost, cost != 0 && r.covers(i)
	}
	e := r.one.derive(driver.Charge, missing)
	if !slices.ContainsFunc(e.demands, func(d demand) bool { return d.Cost > 0 }) {
		e.op = driver.Refund
		for i := range e.demands {
			e.demands[i].Cost = -e.demands[i].Cost
		}
	}
	return e
}

// covers reports whether the reservation has the estimate of the i-th demand: the rule has charged
// it, or it was 0. A shadow rule that denied has charged nothing.
func (r *Reservation[T]) covers(i int) bool {
	rule := r.one.demands[i].Rule
	return r.one.demands[i].Cost == 0 || slices.ContainsFunc(r.Decision.Results, func(result RuleResult) bool {
		return result.Rule == rule && result.Paid != 0
	})
}

// refundLocal gives unused units back to the local limiter of FailLocal, once. It ignores
// errors, because the local limiter is only used during an outage.
func (r *Reservation[T]) refundLocal(ctx context.Context, costs []int64) {
	l := r.limiter
	if l.local == nil || r.localRefunded {
		return
	}
	e := r.one.derive(driver.Refund, func(i int) (int64, bool) {
		unused := multiply(r.one.demands[i].Cost, r.n) - costs[i]
		return unused, unused > 0 && r.covers(i)
	})
	if r.localRefunded = len(e.demands) > 0; r.localRefunded {
		_, _ = l.local.Decide(ctx, e.prepare(false))
	}
	e.release()
}
