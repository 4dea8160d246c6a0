package sluice

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage/memory"
)

// Options are the settings of a [Limiter] besides its store and rules. The zero value is valid.
type Options[T any] struct {
	// Namespace is part of every stored key, so limiters with different namespaces share no states.
	Namespace string
	// Group returns the group of an input, such as its tenant. Groups share no limits. In a Redis Cluster or Ring, a call with
	// several keys needs a Group, and otherwise fails with [storage.ErrKey].
	Group func(T) string
	// Clock returns the time of a decision. It must not return the zero Time, or call a limiter. Nil means the clock of the store.
	// Set Clock in all limiters of a store or in none, and keep the clocks of all processes synchronised.
	Clock func() time.Time
	// MaxSkew is how far states may be ahead of the clock before Decision.Err is ErrSkew. 0 means never.
	MaxSkew time.Duration
	// Timeout is the longest time that a decision may take. 0 means [DefaultTimeout], one second. While the store fails, calls
	// wait that long before OnFailure applies. If the server refuses connections, FailOpen and FailLocal apply after 50 ms.
	Timeout time.Duration
	// CircuitOpenAfter is how long the store must fail before the circuit breaker opens. OnFailure then applies at once. 0 means
	// one second, below 0 never.
	CircuitOpenAfter time.Duration
	// DenialCacheTTL is how long the limiter repeats denials from its cache, and up to as long again while one call asks the
	// store. 0 means one second, below 0 no cache. If another limiter resets or refunds a key, this one can keep denying it for
	// that long.
	DenialCacheTTL time.Duration
	// DenialCacheSize is the maximum number of keys in the cache. 0 means 65,536.
	DenialCacheSize int
	// MaxRoundTrips is how many batches to one server may be in flight. 1 saves processor time, and 2 shortens the waits. 0 means
	// 1 to SQLite and 2 to a server. Decisions by Load and CompareAndSwap are not limited.
	MaxRoundTrips int
	// MaxQueue is how many calls may wait to be sent to a server. Further calls fail with [storage.ErrOverloaded]. A call of Wait
	// does not count while it waits for units. 0 means 65,536.
	MaxQueue int
	// Prepay buys calls for busy keys ahead. The zero value is off.
	Prepay Prepay
	// OnFailure decides calls if the store fails. The zero value is FailClosed.
	OnFailure FailurePolicy
	// Local is the store in which FailLocal decides. Give it to all limiters that shall share their limits during an outage. Nil
	// means a store of this limiter alone, with Options.Clock.
	Local *memory.Store
	// Observer is called after every operation, with the context of the caller, on its goroutine or that of a renewal. It may keep
	// the Event, but must not modify Decision.Results.
	Observer func(context.Context, Event)
}

// DefaultTimeout is used if Options.Timeout is 0.
const DefaultTimeout = engine.DefaultTimeout

// FailurePolicy is what happens to a call if the store fails. A call with a fault, such as a negative cost, or with an ended
// context always fails.
type FailurePolicy uint8

// The failure policies.
const (
	FailClosed FailurePolicy = iota // the call fails with an error
	FailOpen                        // the call is allowed
	FailLocal                       // a limiter in the memory of this process decides
)

func (o *Options[T]) validate() error {
	for _, f := range [...]struct {
		name     string
		value    any
		negative bool
	}{
		{"Timeout", o.Timeout, o.Timeout < 0},
		{"DenialCacheSize", o.DenialCacheSize, o.DenialCacheSize < 0},
		{"MaxSkew", o.MaxSkew, o.MaxSkew < 0},
		{"MaxRoundTrips", o.MaxRoundTrips, o.MaxRoundTrips < 0},
		{"MaxQueue", o.MaxQueue, o.MaxQueue < 0},
	} {
		if f.negative {
			return fmt.Errorf("sluice: Options.%s must be at least 0, got %v", f.name, f.value)
		}
	}
	if o.OnFailure > FailLocal {
		return fmt.Errorf("sluice: Options.OnFailure must be FailClosed, FailOpen or FailLocal, got %d", o.OnFailure)
	}
	return o.Prepay.validate()
}
