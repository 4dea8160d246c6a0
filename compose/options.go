package compose

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
)

// Options configure a [Limiter] beyond its store and rules. The zero value is
// ready.
type Options[T any] struct {
	// Namespace is part of every stored key. Limiters with different namespaces
	// share a store without meeting; those with the same one share the use of
	// rules that have the same name, as the processes of a fleet do.
	Namespace string
	// Group places the keys of one decision together in stores that are spread
	// over servers (in Redis Cluster by its hash tag): a tenant, for instance.
	// Every key of a decision has the group of its input. Nil means one group
	// for all.
	Group func(T) string
	// Clock tells the time of decisions. Nil means the clock of the store: the server's, for
	// PostgreSQL and Redis, so that processes whose clocks disagree decide alike; for SQLite the
	// clock of its Options; and for a [memory.Store] the monotonic clock that its Now describes.
	// All rules go by one reading, fresh for every attempt at a decision. It may step back.
	//
	// If processes share a store and hand in clocks, these should agree. A clock that is ahead of the
	// others spends its lead early and can block them for as long. A clock that is more than
	// 10 s behind both the clock of the store's server and that of another process can admit
	// a burst that is already used, and again after every quiet gap, because the server has
	// dropped the record by then. The remedy is to hand in no clock.
	// It must not return the zero Time.
	Clock func() time.Time
	// MaxSkew is by how much the states may be ahead of the clock that decides
	// before the decision says so in its Err, as ErrSkew: another process, whose
	// clock is or was ahead, may be blocking this one. The decision stands. 0
	// means never to say so; Decision.Skew is there in any case.
	MaxSkew time.Duration
	// Timeout is the longest that one decision may take if the caller's context
	// does not end sooner; 0 means [DefaultTimeout]. When the store fails, the first decisions wait for
	// that long before OnFailure applies, until the circuit breaker opens.
	Timeout time.Duration
	// CircuitOpenAfter is for how long the store must fail before the circuit breaker opens. While it is open, decisions do
	// not wait for the store: OnFailure applies at once, and one probe at a time tests the store in the
	// background. The first success closes it. Cached denials are answered in any case. 0 means one second; a negative
	// value means that it never opens.
	CircuitOpenAfter time.Duration
	// DenialCacheTTL is for how long a denial may be answered from this process's cache, without a
	// round trip; 0 means one second, and a negative value means that nothing is cached. If another process resets
	// or refunds a key, or raises its limit, this process sees that after DenialCacheTTL at
	// the latest. A limiter sees its own resets and refunds at once.
	DenialCacheTTL time.Duration
	// DenialCacheSize is about how many keys the cache holds; 0 means 65,536.
	DenialCacheSize int
	// MaxRoundTrips is how many round trips to one server may be in flight at once; 0 means what the
	// store says, mostly 2. Decisions that come meanwhile wait, and share the next round trip. It means nothing to a
	// store that must be called by the caller's goroutine, such as one on a transaction, nor to decisions
	// that take compare-and-swap.
	MaxRoundTrips int
	// MaxQueue is how many decisions may wait for a round trip. One more fails with
	// [storage.ErrOverloaded]. 0 means 65,536.
	MaxQueue int
	// OnFailure is what becomes of a decision when the store fails; the zero
	// value is FailClosed.
	OnFailure FailurePolicy
	// Observer is told of every decision, after it was made and by the
	// goroutine that asked for it; nil means nobody.
	Observer func(Event)
}

// New makes a limiter with these options; see the function [New].
func (o Options[T]) New(store storage.Store, rules ...Rule[T]) (*Limiter[T], error) {
	switch {
	case o.Timeout < 0:
		return nil, fmt.Errorf("compose: Options.Timeout must be at least 0, got %v", o.Timeout)
	case o.DenialCacheSize < 0:
		return nil, fmt.Errorf("compose: Options.DenialCacheSize must be at least 0, got %d", o.DenialCacheSize)
	case o.MaxSkew < 0:
		return nil, fmt.Errorf("compose: Options.MaxSkew must be at least 0, got %v", o.MaxSkew)
	case o.MaxRoundTrips < 0:
		return nil, fmt.Errorf("compose: Options.MaxRoundTrips must be at least 0, got %d", o.MaxRoundTrips)
	case o.MaxQueue < 0:
		return nil, fmt.Errorf("compose: Options.MaxQueue must be at least 0, got %d", o.MaxQueue)
	case o.OnFailure > FailLocal:
		return nil, fmt.Errorf("compose: Options.OnFailure must be FailClosed, FailOpen or FailLocal, got %d", o.OnFailure)
	}
	return newLimiter(o, store, rules)
}

// DefaultTimeout is the longest that one decision may take if Options.Timeout is 0.
const DefaultTimeout = engine.DefaultTimeout

// FailurePolicy is what becomes of a decision that the store could not make.
// What the caller asked wrongly (a cost, a context that has ended) always fails
// closed.
type FailurePolicy uint8

// The failure policies.
const (
	FailClosed FailurePolicy = iota // an error, and nothing is allowed
	FailOpen                        // allowed; the decision is Degraded and has the error in Err
	FailLocal                       // a limiter in memory decides until the store is back; Degraded, and Err
)
