package sluice

import (
	"time"

	"github.com/sluice-go/sluice/internal/engine"
)

// Options are the settings of a [Limiter] besides its store and rules. The zero value is valid.
type Options[T any] struct {
	// Namespace is part of every stored key. Limiters on one store share the limits of rules with
	// the same name if they have the same namespace, for example in the processes of a fleet.
	Namespace string
	// Group returns the group of an input, such as its tenant. Different groups share no limits.
	// A Redis Cluster or Ring keeps all keys of a group on one server: the group is their hash tag.
	// With a nil Group the keys are spread over the servers, and decisions with several keys fail with
	// ErrCrossSlot of package storage/redis, which wraps storage.ErrKey. Other stores need no Group.
	Group func(T) string
	// Clock returns the time of a decision. All rules use one reading, and each attempt of a
	// decision takes a new one. The time may step back, but must not be the zero Time.
	//
	// A nil Clock means the clock of the store; see the package documentation.
	//
	// If processes share a store and set Clock, their clocks must agree. A clock that is ahead can
	// deny the calls of other processes. A clock that is more than 10 s behind can admit too many
	// calls, because the store may already have deleted the record. With the stores of this module,
	// a nil Clock avoids both. On one store, either all limiters set Clock or none does. With a Clock,
	// states are never moved back; see the package documentation.
	Clock func() time.Time
	// MaxSkew is how far the states may be ahead of the clock before Decision.Err is ErrSkew.
	// The decision is still valid. With a Clock, states are ahead if the clock of another process is or was
	// ahead, which can deny calls of this process until its clock reaches the time of the state. Without a
	// Clock, states are ahead if the store's clock has stepped back, which denies calls for at most 10 s
	// more. 0 means that Err is never ErrSkew; Decision.Skew is set in any case.
	MaxSkew time.Duration
	// Timeout is the longest time that one decision may take, unless the context of the caller
	// ends sooner. 0 means [DefaultTimeout], one second. If the store fails, each call waits for
	// the whole Timeout before OnFailure applies, until the circuit breaker opens. But if no
	// connection can be made, for instance because the server refuses it, FailOpen and FailLocal
	// decide after about 50 ms. This holds for Allow, Wait, Reserve and Peek.
	Timeout time.Duration
	// CircuitOpenAfter is how long the store must fail before the circuit breaker opens. 0 means one
	// second. A negative value means never. While it is open, OnFailure applies at once, and one
	// probe at a time tests the store in the background. After a probe has succeeded, or if nothing has
	// tested the store for a second because no call came, calls use the store again. The denial cache
	// also works while the breaker is open.
	CircuitOpenAfter time.Duration
	// DenialCacheTTL is how long the limiter may repeat a denial from its cache, without a round
	// trip. 0 means one second. A negative value means that there is no cache. If another process
	// resets or refunds a key, or raises its limit, the limiter can keep denying the key for that
	// long. It sees its own resets and refunds at once. A limiter that reserves, refunds or resets keeps no
	// denial while others write the record. If nobody has written it between two denials, it keeps the second one
	// for 1ms, and each further one for twice as long.
	DenialCacheTTL time.Duration
	// DenialCacheSize is the maximum number of keys in the cache. 0 means 65,536.
	DenialCacheSize int
	// MaxRoundTrips is how many round trips to one server may be in flight at once. Calls that arrive in
	// the meantime share the next round trip. 0 means 1 to SQLite and 2 to other stores.
	// MaxRoundTrips has no effect on decisions by Load and CompareAndSwap.
	MaxRoundTrips int
	// MaxQueue is how many callers may wait for a round trip. Others fail with
	// [storage.ErrOverloaded]. 0 means 65,536.
	MaxQueue int
	// OnFailure is what happens to a call if the store fails. The zero value is FailClosed.
	OnFailure FailurePolicy
	// Observer is called after every operation, on the goroutine of the caller. The observer
	// may keep the Event, but must not modify Decision.Results, because the caller gets the same
	// slice. Nil means that there is no observer.
	Observer func(Event)
}

// DefaultTimeout is used if Options.Timeout is 0.
const DefaultTimeout = engine.DefaultTimeout

// FailurePolicy is what happens to a call if the store fails. A call with a fault, such as a negative
// cost, fails with an error under every FailurePolicy. So does a call whose context has ended.
type FailurePolicy uint8

// The failure policies.
const (
	FailClosed FailurePolicy = iota // the call fails with an error, so it is not allowed
	FailOpen                        // the call is allowed; Decision.Degraded and Err are set
	FailLocal                       // a limiter in the memory of this process decides; Degraded and Err are set
)
