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
	one      *turn // what the rules asked for one call
	n        int64
	settled  bool
	returned bool // to the stand-in of an outage
}

// Reserve pays for n calls, as AllowN does. Where the decision is a denial,
// there is no reservation.
//
// n counts calls under every rule alike, and so does what Settle is told. Where rules go
// by different units, such as a request and its tokens, take the estimate by Allow, of an
// input whose Cost it is, and correct it by Refund or Charge, of an input whose Cost is the
// difference, and 0 under the other rules.
func (l *Limiter[T]) Reserve(ctx context.Context, in T, n int64) (*Reservation[T], Decision, error) {
	if l.place != nil && ctx.Err() == nil {
		ctx = context.WithoutCancel(ctx) // as AllowN, which waits for nobody there
	}
	var one *turn
	d, err := l.told(OpAllow, func() (d Decision, err error) {
		if n < 1 {
			return d, tooFew(n)
		}
		if one, err = l.ask(OpAllow, in, 1); err != nil {
			return d, err
		}
		return l.decideTurn(ctx, one.times(OpAllow, n), l.options.OnFailure)
	})
	if err != nil || !d.Allowed {
		return nil, d, err
	}
	return &Reservation[T]{Decision: d, limiter: l, one: one, n: n}, d, nil
}

// Settle corrects the estimate to the actual number of calls, from 0: it
// refunds what was not used, or charges what was used beyond, which may leave a
// debt. It goes by the policies, keys and costs that Reserve found, and calls no
// function of the rules. Rules that did not take part in the reservation, such as a
// shadow that denied it, are left alone. Under a windowed policy it is the window that
// is now which gets units back, not the one that paid.
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
func (r *Reservation[T]) Settle(ctx context.Context, actual int64) (d Decision, err error) {
	switch {
	case r == nil || r.limiter == nil:
		return Decision{}, errNothingReserved
	case r.settled:
		return Decision{}, ErrSettled
	case actual < 0:
		return Decision{}, fmt.Errorf("compose: a reservation is settled with 0 or more, got %d: %w", actual, algo.ErrCost)
	}
	paid := r.n
	if r.Decision.Degraded {
		paid = 0
		r.returnLocal(ctx, actual)
	}
	switch {
	case actual == paid:
		r.settled = true
		return r.Decision, nil
	case actual < paid:
		d, err = r.correct(ctx, OpRefund, paid-actual)
	default:
		d, err = r.correct(ctx, OpCharge, actual-paid)
	}
	r.settled = err == nil && !d.Degraded
	return d, err
}

// returnLocal gives back, once, what the stand-in of an outage has been paid and was not
// used. Nobody depends on it, so it may fail.
func (r *Reservation[T]) returnLocal(ctx context.Context, actual int64) {
	l := r.limiter
	if l.local == nil || r.returned || actual >= r.n {
		return
	}
	r.returned = true
	t := r.one.times(OpRefund, r.n-actual)
	t.only(r.paid)
	if _, err := l.local.Do(ctx, t.keys, t.run); err == nil {
		t.end()
	}
}

// correct refunds or charges n calls under the rules that were paid.
func (r *Reservation[T]) correct(ctx context.Context, op Op, n int64) (Decision, error) {
	l := r.limiter
	return l.told(op, func() (Decision, error) {
		t := r.one.times(op, n)
		if !r.Decision.Degraded {
			t.only(r.paid)
		}
		return l.decideTurn(ctx, t, min(l.options.OnFailure, FailOpen))
	})
}

// paid reports whether the rule took part in the reservation, which a shadow that
// denied did not.
func (r *Reservation[T]) paid(rule string) bool {
	return slices.ContainsFunc(r.Decision.Results, func(result RuleResult) bool {
		return result.Rule == rule && result.Paid != 0
	})
}
