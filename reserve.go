package sluice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// opReserve is the operation under which rules with an estimate of 0 apply too.
const opReserve = driver.Reset + 1

// ErrSettled is the error of a Reservation that is settled already.
var ErrSettled = errors.New("sluice: reservation is settled already")

var errNothingReserved = errors.New("sluice: there is no reservation, because the calls were denied or Reserve failed; use it only if Decision.Allowed is true")

// Reservation is an estimate that was charged, and units that are held under inflight rules. Use it in one goroutine at a time.
type Reservation[T any] struct {
	Decision Decision // of the estimate

	limiter       *Limiter[T]
	n             int64
	uses          []use // of the rules that apply, also those with an estimate of 0
	settled       bool
	localRefunded bool // the local limiter of FailLocal has what was not used

	oneUse    [1]use // memory, so that the only rule needs no allocations
	oneResult [1]RuleResult
}

// use is what one call uses under a rule.
type use struct {
	rule   string
	shadow bool
	policy algo.Policy
	key    driver.RuleKey
	cost   int64
	actual int64 // that the estimate is corrected to; 0 for held units, which are released
	hold
}

// Reserve charges n calls like AllowN, as an estimate that [Reservation.Settle] corrects. If the calls are denied, the
// reservation is nil. If ctx is cancelled, Reserve waits for the decision, as [Limiter.Hold] does.
//
// If the rules count different units, let Rule.Cost return the estimate, and settle with [Reservation.SettleFor]. Under a rule
// with an estimate of 0, Reserve charges nothing and does not deny.
//
// Under inflight rules, Reserve holds units until [Reservation.Release] or Settle. If the work takes longer than the TTL, use
// [Reservation.Keep]. [Limiter.Do] does both.
func (l *Limiter[T]) Reserve(ctx context.Context, in T, n int64) (*Reservation[T], Decision, error) {
	if l.engine != nil {
		l.engine.ExpectRefunds()
	}
	return l.reserve(ctx, opReserve, in, n)
}

// reserve is Reserve for units that are not expected to be refunded. op says which rules apply; see opReserve.
func (l *Limiter[T]) reserve(ctx context.Context, op driver.Op, in T, n int64) (*Reservation[T], Decision, error) {
	r := &Reservation[T]{limiter: l, n: n}
	observed := false
	defer func() {
		if !observed { // the observer has panicked, so nobody else can release the units
			_ = r.Release(context.WithoutCancel(ctx))
		}
	}()
	_, err := l.observed(ctx, driver.Allow, func() (Decision, error) {
		err := r.charge(ctx, op, in, &r.Decision)
		return r.Decision, err
	})
	observed = true
	if !r.Decision.Allowed {
		return nil, r.Decision, err
	}
	return r, r.Decision, nil
}

// charge charges the estimate, and writes the decision to d, which is zero.
func (r *Reservation[T]) charge(ctx context.Context, op driver.Op, in T, d *Decision) error {
	if r.n < 1 {
		return countError(r.n)
	}
	l, began := r.limiter, time.Now()
	var some [inlineRules]driver.Item
	d.Results = r.oneResult[:0]
	items, err := l.gather(op, in, 1, l.rules, d, some[:0])
	if err != nil {
		return err
	}
	if r.uses = r.oneUse[:]; len(items) != 1 {
		r.uses = make([]use, len(items))
	}
	charged := 0
	for i := range r.uses {
		u, result := &r.uses[i], &d.Results[i]
		u.rule, u.shadow, u.policy, u.key, u.cost = result.Rule, result.Shadow, result.Policy, items[i].Key, result.Cost
		if result.Cost = multiply(result.Cost, r.n); result.Cost > 0 {
			d.Results[charged], items[charged].Key = *result, items[i].Key
			charged++
		}
	}
	d.Results = d.Results[:charged]
	ctx, cancel := l.uncancelled(ctx)
	defer cancel()
	_, err = l.decide(ctx, driver.Allow, 0, items[:charged], d, l.options.OnFailure)
	for i := range d.Results {
		r.useOf(d.Results[i].Rule).take(d, i, began)
	}
	return err
}

// results appends a result to results, and an item to items, for each use for which cost returns true, with the cost that it
// returns.
func (r *Reservation[T]) results(results []RuleResult, items []driver.Item, cost func(*use) (cost int64, keep bool)) ([]RuleResult, []driver.Item) {
	for i := range r.uses {
		u := &r.uses[i]
		if cost, keep := cost(u); keep {
			result := RuleResult{Rule: u.rule, Key: u.key.Key, Policy: u.policy, Shadow: u.shadow, Result: algo.Result{Cost: cost}}
			if result.held = !u.taken.IsZero(); result.held {
				result.Policy = u.policy.(algo.Holder).Held(u.taken)
			}
			results, items = append(results, result), append(items, driver.Item{Key: u.key})
		}
	}
	return results, items
}

func (r *Reservation[T]) useOf(rule string) *use {
	for i := range r.uses {
		if r.uses[i].rule == rule {
			return &r.uses[i]
		}
	}
	return nil
}

// Settle corrects the estimate to the actual number of calls, at least 0, and releases all held units. It refunds what was not
// used, or charges what was used beyond the estimate, which can leave a debt.
//
//   - A shadow rule that would have denied is not corrected, because it charged nothing.
//   - Under a rule with an estimate of 0, any number of calls is free.
//   - In a windowed policy the refund goes to the current window.
//   - If ctx has ended, Settle fails and the estimate stays charged. After a request use [context.WithoutCancel].
//   - If the decision of Reserve is Degraded, Settle charges the full actual cost, because the store usually has not recorded
//     the estimate. If its Err is storage.ErrOutcomeUnknown, this may charge twice.
//
// After an error or a Degraded decision, Settle can be called again. After [storage.ErrOutcomeUnknown] this can make the
// correction twice.
func (r *Reservation[T]) Settle(ctx context.Context, actual int64) (Decision, error) {
	if actual < 0 && r.checkOpen() == nil {
		return Decision{}, costError(fmt.Sprintf("sluice: Settle takes 0 calls or more, got %d", actual))
	}
	return r.settle(ctx, func(u *use) (int64, error) { return multiply(u.cost, actual), nil })
}

// SettleFor is Settle for rules that count different units. The actual cost under each rule is its Cost(in), times the n of
// Reserve. A rule without Cost is not corrected. An Observer sees a charge together with a refund as OpCharge, with a negative
// Cost for the refund.
func (r *Reservation[T]) SettleFor(ctx context.Context, in T) (Decision, error) {
	return r.settle(ctx, func(u *use) (int64, error) { return r.limiter.ruleOf(u.rule).cost(in, r.n) })
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

// settle corrects the estimate. actual returns the actual cost under a rule.
func (r *Reservation[T]) settle(ctx context.Context, actual func(*use) (int64, error)) (d Decision, err error) {
	if err := r.checkOpen(); err != nil {
		return Decision{}, err
	}
	for i := range r.uses {
		if u := &r.uses[i]; !isHolder(u.policy) {
			if u.actual, err = actual(u); err != nil {
				return Decision{}, err
			}
		}
	}
	if r.Decision.Degraded {
		if err := r.refundLocal(ctx); err != nil {
			return Decision{}, err
		}
	}
	op, items := r.correction(&d)
	if len(items) == 0 {
		r.settled = true
		return r.Decision, nil
	}
	l := r.limiter
	return l.observed(ctx, op, func() (Decision, error) {
		_, err := l.decide(ctx, op, 0, items, &d, min(l.options.OnFailure, FailOpen))
		r.settled = err == nil && !d.Degraded // here, because the observer can panic
		if r.settled || errors.Is(cmp.Or(err, d.Err), storage.ErrOutcomeUnknown) {
			r.clearHeld() // a second release could free the units of others
		}
		return d, err
	})
}

// correction adds to d what corrects the store to the actual costs. The operation is a charge in
// which a refund has a negative cost, or a refund if no rule needs a charge.
func (r *Reservation[T]) correction(d *Decision) (op driver.Op, items []driver.Item) {
	d.Results, items = r.results(nil, nil, func(u *use) (int64, bool) {
		if r.Decision.Degraded {
			return u.actual, u.actual != 0
		}
		cost := u.actual - multiply(u.cost, r.n)
		return cost, cost != 0 && r.covers(u)
	})
	if slices.ContainsFunc(d.Results, func(result RuleResult) bool { return result.Cost > 0 }) {
		return driver.Charge, items
	}
	for i := range d.Results {
		d.Results[i].Cost = -d.Results[i].Cost
	}
	return driver.Refund, items
}

// covers reports whether the reservation has the estimate of a rule: the rule has charged it and it was not released, or
// it was 0. A shadow rule that denied has charged nothing.
func (r *Reservation[T]) covers(u *use) bool {
	if isHolder(u.policy) {
		return u.isHeld()
	}
	return u.cost == 0 || slices.ContainsFunc(r.Decision.Results, func(result RuleResult) bool {
		return result.Rule == u.rule && result.Paid != 0
	})
}

// refundLocal gives unused units back to the local limiter of FailLocal, once. It fails only if ctx has ended. It ignores the
// errors of policies, because the local limiter is only used during an outage.
func (r *Reservation[T]) refundLocal(ctx context.Context) error {
	l := r.limiter
	if r.localRefunded {
		return nil
	}
	results, items := r.results(nil, nil, func(u *use) (int64, bool) {
		unused := multiply(u.cost, r.n) - u.actual
		return unused, unused > 0 && r.covers(u)
	})
	if len(items) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	r.localRefunded = true
	_, _ = decideInMemory(context.WithoutCancel(ctx), l.options.Local, nil, driver.Refund, 0, items, &Decision{Results: results})
	r.clearHeld()
	return nil
}
