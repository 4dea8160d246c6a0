package compose

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/algo"
)

// ErrSettled is returned by [Reservation.Settle] when it was called before.
var ErrSettled = errors.New("compose: reservation is settled already")

// Reservation is an estimate that was paid, to be settled when the actual is
// known. It is for one goroutine.
type Reservation[T any] struct {
	Decision Decision // of the estimate

	limiter *Limiter[T]
	in      T
	n       int64
	settled bool
}

// Reserve pays for n calls, as AllowN does. Where the decision is a denial,
// there is no reservation.
func (l *Limiter[T]) Reserve(ctx context.Context, in T, n int64) (*Reservation[T], Decision, error) {
	d, err := l.AllowN(ctx, in, n)
	if err != nil || !d.Allowed {
		return nil, d, err
	}
	return &Reservation[T]{Decision: d, limiter: l, in: in, n: n}, d, nil
}

// Settle corrects the estimate to the actual number of calls, from 0: it
// refunds what was not used, or charges what was used beyond, which may leave a
// debt. Of a reservation that is Degraded nothing was paid in the store, so all
// of actual is charged.
//
// When it fails, or the correction is Degraded itself, it may be called again,
// unless the error is storage.ErrOutcomeUnknown and that risk is too much.
func (r *Reservation[T]) Settle(ctx context.Context, actual int64) (d Decision, err error) {
	paid := r.n
	if r.Decision.Degraded {
		paid = 0
	}
	switch {
	case r.settled:
		return Decision{}, ErrSettled
	case actual < 0:
		return Decision{}, fmt.Errorf("compose: a reservation is settled with 0 or more, got %d: %w", actual, algo.ErrCost)
	case actual == paid:
		r.settled = true
		return r.Decision, nil
	case actual < paid:
		d, err = r.limiter.Refund(ctx, r.in, paid-actual)
	default:
		d, err = r.limiter.Charge(ctx, r.in, actual-paid)
	}
	r.settled = err == nil && !d.Degraded
	return d, err
}
