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
	// Namespace is part of every stored key. Limiters with the same store and namespace share the states of rules with the same
	// name.
	Namespace string
	// Group returns the group of an input, such as its tenant. Groups share no limits. A Redis Cluster or Ring keeps a group on
	// one server: it is the hash tag of the keys. There, a call with several keys needs a Group, and otherwise fails with an
	// error that wraps storage.ErrKey. Other stores need no Group.
	Group func(T) string
	// Clock returns the time of a decision, once for each attempt. It may step back, but must not return the zero Time, or call a
	// limiter. Nil means the clock of the store.
	//
	// All limiters of a store set Clock, or none does. The clocks of processes must agree: one that is ahead can deny the calls
	// of others, and one that is more than 10 s behind can admit too many.
	Clock func() time.Time
	// MaxSkew is how far states may be ahead of the clock before Decision.Err is ErrSkew. The decision is still valid. 0 means
	// never.
	MaxSkew time.Duration
	// Timeout is the longest time that a decision may take. 0 means [DefaultTimeout], one second. While the store fails, calls
	// wait that long before OnFailure applies, until the circuit breaker opens. But if the server refuses connections, FailOpen
	// and FailLocal decide after 50 ms. This holds for Allow, Wait, Reserve and Peek.
	Timeout time.Duration
	// CircuitOpenAfter is how long the store must fail before the circuit breaker opens. 0 means one second, below 0 never. While
	// it is open, OnFailure applies at once, and one probe at a time tests the store.
	CircuitOpenAfter time.Duration
	// DenialCacheTTL is how long the limiter repeats denials from its cache, without a round trip, and up to as long again while
	// one call asks the store. 0 means one second, below 0 no cache. If another limiter resets or refunds a key, the limiter can
	// keep denying it for that long. A limiter that reserves, refunds or resets keeps no denial while others write the record, and
	// otherwise begins with 1ms and doubles it.
	DenialCacheTTL time.Duration
	// DenialCacheSize is the maximum number of keys in the cache. 0 means 65,536.
	DenialCacheSize int
	// MaxRoundTrips is how many batches to one server may be in flight. Calls that arrive meanwhile share the next one. 1 saves
	// processor time, and 2 shortens the waits. 0 means 1 to SQLite and 2 to a server. It has no effect on decisions by Load and
	// CompareAndSwap.
	MaxRoundTrips int
	// MaxQueue is how many calls may wait to be sent to a server: for a batch, for another call with the same key or with a
	// locked record, or after a failed attempt. While that many wait, further calls to this server fail with
	// [storage.ErrOverloaded]. Only calls that must be sent again can exceed it. A call of Wait does not count while it waits for
	// units. 0 means 65,536.
	MaxQueue int
	// Prepay buys calls for busy keys ahead. The zero value is off.
	Prepay Prepay
	// OnFailure is what happens to a call if the store fails. The zero value is FailClosed.
	OnFailure FailurePolicy
	// Local is the store in which FailLocal decides. Give it to all limiters of a Store that shall share what they allow during an
	// outage, also to one that replaces another. nil means a store of this limiter alone, with Options.Clock.
	Local *memory.Store
	// Observer is called after every operation, on the goroutine of the caller and with its context. Do, Hold and Keep renew on a
	// goroutine of their own. It may keep the Event, but must not modify Decision.Results.
	Observer func(context.Context, Event)
}

// DefaultTimeout is used if Options.Timeout is 0.
const DefaultTimeout = engine.DefaultTimeout

// FailurePolicy is what happens to a call if the store fails. A call with a fault, such as a negative cost, or with an ended
// context fails under every FailurePolicy.
type FailurePolicy uint8

// The failure policies.
const (
	FailClosed FailurePolicy = iota // the call fails with an error, so it is not allowed
	FailOpen                        // the call is allowed; Decision.Degraded and Err are set
	FailLocal                       // a limiter in the memory of this process decides; Degraded and Err are set
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
