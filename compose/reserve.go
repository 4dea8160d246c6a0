package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-go/sluice/algo"
)

// ErrSettled is returned by [Reservation.Settle] when it was called before.
var ErrSettled = errors.New("compose: reservation is settled already")

// errNothingReserved is returned for a reservation that Reserve did not make.
var errNothingReserved = errors.New("compose: there is no reservation to settle")

// Reservation is an estimate that was paid, to be settled when the actual is
// known. It is for one goroutine.
type Reservation[T any] struct {
	Decision Decision // of the estimate

	limiter  *Limiter[T]
	one      *evaluation // what the rules asked for one call, also those under which it is free
	n        int64
	settled  bool
	returned bool // to the stand-in of an outage
}

// Reserve pays for n calls, as AllowN does. Where the decision is a denial,
// there is no reservation.
//
// n counts calls under every rule alike, and so does what [Reservation.Settle] is told.
// Where rules go by different units, such as requests and their tokens, let Cost find the
// estimate in the input, and settle by [Reservation.SettleFor]. An estimate may be 0: it
// pays nothing and cannot be denied, and SettleFor charges the actual cost.
func (l *Limiter[T]) Reserve(ctx context.Context, in T, n int64) (*Reservation[T], Decision, error) {
	if l.memory != nil && ctx.Err() == nil {
		ctx = context.WithoutCancel(ctx) // as AllowN, which waits for nobody there
	}
	var one *evaluation
	d, err := l.told(OpAllow, func() (d Decision, err error) {
		if n < 1 {
			return d, tooFew(n)
		}
		if one, err = l.ask(opReserve, in, 1); err != nil {
			return d, err
		}
		t := one.times(OpAllow, n)
		t.only(func(i int) bool { return t.demands[i].cost > 0 })
		return l.decideAll(ctx, t, l.options.OnFailure)
	})
	if err != nil || !d.Allowed {
		return nil, d, err
	}
	return &Reservation[T]{Decision: d, limiter: l, one: one, n: n}, d, nil
}

// Settle corrects the estimate to the actual number of calls, from 0: it
// refunds what was not used, or charges what was used beyond, which may leave a
// debt. It goes by the policies, keys and costs that Reserve found, and calls no
// function of the rules. A shadow that denied the reservation was not paid, and is
// left alone. Calls that are free under a rule stay free, however many there were.
// Under a windowed policy it is the window that is now which gets units back, not
// the one that paid.
//
// With a context that has ended it fails, and the estimate stays paid: where that may
// be, as after a request, settle with [context.WithoutCancel].
//
// Of a reservation that is Degraded nothing is known to be paid in the store, so all
// of actual is charged: too much if its Err is storage.ErrOutcomeUnknown and it
// was paid after all. The stand-in of FailLocal gets back what was not used. All
// other corrections are for the store alone: where it fails and OnFailure is not
// FailClosed, the correction is Degraded and has not been made.
//
// When it fails, or the correction is Degraded, it may be called again, unless
// the error is storage.ErrOutcomeUnknown and that risk is too much.
func (r *Reservation[T]) Settle(ctx context.Context, actual int64) (Decision, error) {
	if actual < 0 && r.isOpen() == nil {
		return Decision{}, fmt.Errorf("compose: a reservation is settled with 0 or more, got %d: %w", actual, algo.ErrCost)
	}
	return r.settle(ctx, func(one *demand) (int64, error) { return times(one.cost, actual), nil })
}

// SettleFor is Settle for rules that go by different units: it corrects each to what its
// Cost says of in, times the n of Reserve, and calls no other function of the rules. The
// policies and keys are those that Reserve found. A rule that has no Cost, or whose Cost of
// in is what was paid, is left alone. A rule under which the estimate was free is charged
// the actual cost in full. Where more was used under one rule and less under another, both
// are corrected in one write: it shows as OpCharge, with a negative Cost of the units that
// are given back.
func (r *Reservation[T]) SettleFor(ctx context.Context, in T) (Decision, error) {
	return r.settle(ctx, func(one *demand) (int64, error) { return r.limiter.rules[one.rule].cost(in, r.n) })
}

func (r *Reservation[T]) isOpen() error {
	switch {
	case r == nil || r.limiter == nil:
		return errNothingReserved
	case r.settled:
		return ErrSettled
	}
	return nil
}

// settle corrects the estimate to the actual cost under each rule; one is what was asked
// of that rule for one call.
func (r *Reservation[T]) settle(ctx context.Context, actual func(one *demand) (int64, error)) (d Decision, err error) {
	if err := r.isOpen(); err != nil {
		return Decision{}, err
	}
	costs := make([]int64, len(r.one.demands))
	for i := range costs {
		if costs[i], err = actual(&r.one.demands[i]); err != nil {
			return Decision{}, err
		}
	}
	if r.Decision.Degraded {
		r.returnLocal(ctx, costs)
	}
	t := r.correction(costs)
	if len(t.demands) == 0 {
		t.release()
		r.settled = true
		return r.Decision, nil
	}
	l := r.limiter
	d, err = l.told(t.op, func() (Decision, error) { return l.decideAll(ctx, t, min(l.options.OnFailure, FailOpen)) })
	r.settled = err == nil && !d.Degraded
	return d, err
}

// correction is the evaluation that brings what was paid in the store to the actual costs. Until
// it is known to be a mere refund, its costs are those of a charge: below 0 to give back.
func (r *Reservation[T]) correction(costs []int64) *evaluation {
	t := r.one.again()
	t.op = OpRefund
	for i := range t.demands {
		paid := int64(0)
		if !r.Decision.Degraded {
			paid = times(t.demands[i].cost, r.n)
		}
		t.ask(i, costs[i]-paid)
	}
	t.only(func(i int) bool {
		return t.demands[i].cost != 0 && (r.Decision.Degraded || r.tookPart(i))
	})
	if slices.ContainsFunc(t.demands, func(d demand) bool { return d.cost > 0 }) {
		t.op = OpCharge
		return t
	}
	for i := range t.demands {
		t.ask(i, -t.demands[i].cost)
	}
	return t
}

// tookPart reports whether the reservation has what the i-th rule asked for: it was paid,
// or it was 0. A shadow that denied was not paid.
func (r *Reservation[T]) tookPart(i int) bool {
	rule := r.one.results[i].Rule
	return r.one.demands[i].cost == 0 || slices.ContainsFunc(r.Decision.Results, func(result RuleResult) bool {
		return result.Rule == rule && result.Paid != 0
	})
}

// returnLocal gives back, once, what the stand-in of an outage has been paid and was not
// used. Nobody depends on it, so it may fail.
func (r *Reservation[T]) returnLocal(ctx context.Context, costs []int64) {
	l := r.limiter
	if l.local == nil || r.returned {
		return
	}
	t := r.one.times(OpRefund, r.n)
	for i := range t.demands {
		t.ask(i, t.demands[i].cost-costs[i])
	}
	t.only(func(i int) bool { return t.demands[i].cost > 0 && r.tookPart(i) })
	if r.returned = len(t.demands) > 0; !r.returned {
		return
	}
	_, _ = l.local.Decide(ctx, t.prepare(false))
	t.release()
}
