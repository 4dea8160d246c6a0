package driver

import (
	"context"
	"errors"
	"time"
)

// roundTripTime is the time that a detached round trip gets at least.
const roundTripTime = time.Second

// connectTime is a time in which a new connection can be made.
const connectTime = 500 * time.Millisecond

// MayCutConnection reports whether ctx may end before a new connection can be made. Only then is [Detached] necessary.
func MayCutConnection(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= connectTime
}

// Detached calls do in a goroutine, unless ctx has ended. Use it for round trips on pooled connections. If ctx ends, Detached
// returns its error at once. do goes on until the deadline of ctx, and at least for a second after the call. Without a deadline,
// it goes on for another second. do must not use memory of the caller. Its panic reaches the caller.
func Detached[T any](ctx context.Context, do func(ctx context.Context) (T, error)) (T, error) {
	type result struct {
		value    T
		err      error
		panicked any
	}
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	deadline, hasDeadline := ctx.Deadline()
	if hasDeadline {
		until := time.Now().Add(roundTripTime)
		if deadline.After(until) {
			until = deadline
		}
		longer, cancel = context.WithDeadline(longer, until)
	}
	done := make(chan result, 1)
	go func() {
		defer cancel()
		r := result{err: errors.New("storage: a round trip has called runtime.Goexit")}
		defer func() {
			r.panicked = recover()
			done <- r
		}()
		r.value, r.err = do(longer)
	}()
	select {
	case r := <-done:
		if r.panicked != nil {
			panic(r.panicked)
		}
		return r.value, r.err
	case <-ctx.Done():
		if !hasDeadline {
			time.AfterFunc(roundTripTime, cancel)
		}
		var none T
		return none, ctx.Err()
	}
}
