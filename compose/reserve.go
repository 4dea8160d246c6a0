package compose

import (
	"context"
	"errors"
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
// debt. When it fails it may be called again, unless the error is
// storage.ErrOutcomeUnknown and that risk is too much.
func (r *Reservation[T]) Settle(ctx context.Context, actual int64) (d Decision, err error) {
	switch {
	case r.settled:
		return Decision{}, ErrSettled
	case actual < 0:
		return Decision{}, errors.New("compose: a reservation is settled with 0 or more")
	case actual < r.n:
		d, err = r.limiter.Refund(ctx, r.in, r.n-actual)
	case actual > r.n:
		d, err = r.limiter.Charge(ctx, r.in, actual-r.n)
	default:
		d = r.Decision
	}
	r.settled = err == nil
	return d, err
}
