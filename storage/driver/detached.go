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

// MayCutConnection reports whether ctx may end before a new connection can be made. A store detaches the round trips of such
// a ctx, and can make others without a goroutine.
func MayCutConnection(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= connectTime
}

// Detached calls do in a goroutine. If ctx ends first, Detached returns its error at once, and do goes on: the context of do ends a
// second after the call or at the deadline of ctx, whichever is later, or a second after the cancellation of a ctx without a
// deadline. do must not use memory of the caller. A panic of do is raised in the caller.
//
// A store calls Detached for a round trip on a connection of a pool. Database clients close a connection whose round trip is cut
// short. If the deadlines of all callers were shorter than the time for a new connection, none of them would ever get one.
func Detached[T any](ctx context.Context, do func(ctx context.Context) (T, error)) (T, error) {
	type result struct {
		value    T
		err      error
		panicked any
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
