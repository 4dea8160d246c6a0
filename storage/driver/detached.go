package driver

import (
	"context"
	"time"
)

// roundTripTime is the time that a round trip gets at least.
const roundTripTime = time.Second

// Detached calls do in a goroutine. If ctx ends first, Detached returns its error at once, and do goes on: the context of do gives
// it a second, or until the deadline of ctx if that is later or there is none. A store calls Detached for a round trip on a connection of a pool.
// Database clients close a connection whose round trip is cut short. If the deadlines of all callers were
// shorter than the time for a new connection, none of them would ever get one.
func Detached[T any](ctx context.Context, do func(ctx context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	longer, cancel := context.WithoutCancel(ctx), func() {}
	if deadline, ok := ctx.Deadline(); ok {
		until := time.Now().Add(roundTripTime)
		if deadline.After(until) {
			until = deadline
		}
		longer, cancel = context.WithDeadline(longer, until)
	}
	done := make(chan result, 1)
	go func() {
		defer cancel()
		value, err := do(longer)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
