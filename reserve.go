package sluice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage/driver"
)

// opReserve is the operation under which rules with an estimate of 0 apply too.
const opReserve = driver.Reset + 1

// ErrSettled is the error of a Reservation that is settled already.
var ErrSettled = errors.New("sluice: reservation is settled already")

var errNothingReserved = errors.New("sluice: there is no reservation, because the calls were denied or Reserve failed")

// Reservation is an estimated cost that was charged, and units that are held under rules such as "inflight 20 ttl=30s". Settle
// corrects the estimate, and Release gives the held units back. Use it in one goroutine at a time.
type Reservation[T any] struct {
	Decision Decision // of the estimate

	limiter       *Limiter[T]
	one           []RuleResult // the rules and costs of one call, also those with an estimate of 0
	items         []driver.Item
	n             int64
	settled       bool
	held          []hold // of the rules of one; none before the decision
	localRefunded bool   // the local limiter of FailLocal has what was not used
}

// Reserve charges n calls like AllowN, as an estimate that [Reservation.Settle] corrects. n is at least 1. If the calls are
// denied, the reservation is nil.
//
// If the rules count different units, such as requests and bytes, let Rule.Cost return the estimate in its unit, and settle with
// [Reservation.SettleFor]. Under a rule with an estimate of 0, Reserve charges nothing and does not deny.
func (l *Limiter[T]) Reserve(ctx context.Context, in T, n int64) (*Reservation[T], Decision, error) {
	r := &Reservation[T]{limiter: l, items: make([]driver.Item, len(l.rules)), n: n}
	if l.engine != nil {
		l.engine.ExpectRefunds()
	}
	began := time.Now()
	d, err := l.observed(driver.Allow, func() (d Decision, err error) {
		if n < 1 {
			return d, countError(n)
		}
		var one Decision
		if err = l.gather(opReserve, in, 1, l.rules, &one, r.items); err != nil {
			return d, err
		}
		r.one = one.Results
		items := r.addResults(&d, func(i int) (int64, bool) {
			cost := multiply(r.one[i].Cost, n)
			return cost, cost > 0
		})
		err = l.decide(ctx, driver.Allow, items, &d, l.options.OnFailure)
		return d, err
	})
	if err != nil || !d.Allowed {
		return nil, d, err
	}
	r.Decision = d
	r.setHeld(began)
	return r, d, nil
}

// addResults adds a result to d, and an item, for each rule for which cost returns true, with the cost that it returns. After the
// decision it leaves out rules for units that are not held any more.
func (r *Reservation[T]) addResults(d *Decision, cost func(i int) (cost int64, keep bool)) (items []driver.Item) {
	for i := range r.one {
		if cost, keep := cost(i); keep {
			result := r.one[i]
			result.Cost = cost
			if isHolder(result.Policy) && r.held != nil {
				if !r.isHeld(i) {
					continue
				}
				result.Policy = heldUnits{result.Policy.(algo.Holder).Held(r.held[i].taken)}
			}
			d.Results, items = append(d.Results, result), append(items, r.items[i])
		}
	}
	return items
}

// Settle corrects the estimate to the actual number of calls, at least 0. It refunds what was not used, or charges what was used
// beyond the estimate, which can leave a debt. It uses the policies, keys and costs that Reserve found, and calls no function of
// the rules. It also releases all held units.
//
//   - A shadow rule that would have denied is not corrected, because it charged nothing.
//   - Under a rule with an estimate of 0, any number of calls is free.
//   - In a windowed policy the refund goes to the current window.
//   - If ctx has ended, Settle fails and the estimate stays charged. After a request use [context.WithoutCancel].
//   - If the decision of Reserve is Degraded, Settle charges the full actual cost, because the store usually has not recorded the
//     estimate. If its Err is storage.ErrOutcomeUnknown, this may charge twice. Under FailLocal, the local limiter gets unused units
//     back.
//
// If the store fails, Settle returns an error, or a Degraded decision under FailOpen and FailLocal. You can then call it again.
// If the error or the Err of the decision wraps storage.ErrOutcomeUnknown, this can make the correction twice.
func (r *Reservation[T]) Settle(ctx context.Context, actual int64) (Decision, error) {
	if actual < 0 && r.checkOpen() == nil {
		return Decision{}, fmt.Errorf("sluice: a reservation is settled with 0 or more, got %d: %w", actual, algo.ErrCost)
	}
	return r.settle(ctx, func(one *RuleResult) (int64, error) { return multiply(one.Cost, actual), nil })
}

// SettleFor is Settle for rules that count different units. The actual cost under each rule is its Cost(in), times the n of
// Reserve. A rule without Cost is not corrected. One write makes all charges and refunds. An Observer sees it as OpCharge, with
// a negative Cost for a refund.
func (r *Reservation[T]) SettleFor(ctx context.Context, in T) (Decision, error) {
	return r.settle(ctx, func(one *RuleResult) (int64, error) { return r.limiter.ruleOf(one).cost(in, r.n) })
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

// settle corrects the estimate. actual returns the actual cost under a rule, given the result of one call.
func (r *Reservation[T]) settle(ctx context.Context, actual func(one *RuleResult) (int64, error)) (d Decision, err error) {
	if err := r.checkOpen(); err != nil {
		return Decision{}, err
	}
	costs := make([]int64, len(r.one))
	for i := range costs {
		if isHolder(r.one[i].Policy) {
			continue // it releases them
		}
		if costs[i], err = actual(&r.one[i]); err != nil {
			return Decision{}, err
		}
	}
	if r.Decision.Degraded {
		r.refundLocal(ctx, costs)
	}
	op, items := r.correction(&d, costs)
	if len(items) == 0 {
		r.settled = true
		return r.Decision, nil
	}
	l := r.limiter
	d, err = l.observed(op, func() (Decision, error) {
		err := l.decide(ctx, op, items, &d, min(l.options.OnFailure, FailOpen))
		return d, err
	})
	r.settled = err == nil && !d.Degraded
	return d, err
}

// correction adds to d what corrects the store to the actual costs. The operation is a charge in
// which a refund has a negative cost, or a refund if no rule needs a charge.
func (r *Reservation[T]) correction(d *Decision, costs []int64) (op driver.Op, items []driver.Item) {
	items = r.addResults(d, func(i int) (int64, bool) {
		if r.Decision.Degraded {
			return costs[i], costs[i] != 0
		}
		cost := costs[i] - multiply(r.one[i].Cost, r.n)
		return cost, cost != 0 && r.covers(i)
	})
	if slices.ContainsFunc(d.Results, func(result RuleResult) bool { return result.Cost > 0 }) {
		return driver.Charge, items
	}
	for i := range d.Results {
		d.Results[i].Cost = -d.Results[i].Cost
	}
	return driver.Refund, items
}

// covers reports whether the reservation has the estimate of the i-th rule: the rule has charged
// it, or it was 0. A shadow rule that denied has charged nothing.
func (r *Reservation[T]) covers(i int) bool {
	rule := r.one[i].Rule
	return r.one[i].Cost == 0 || slices.ContainsFunc(r.Decision.Results, func(result RuleResult) bool {
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
	var d Decision
	items := r.addResults(&d, func(i int) (int64, bool) {
		unused := multiply(r.one[i].Cost, r.n) - costs[i]
		return unused, unused > 0 && r.covers(i)
	})
	if r.localRefunded = len(items) > 0; r.localRefunded {
		_ = decideInMemory(ctx, l.local, nil, driver.Refund, items, &d)
	}
}
