package compose

import (
	"errors"
	"fmt"
	"time"

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
	// Clock tells the time of decisions; nil is time.Now, or, of a limiter on a
	// memory.Store, the monotonic clock that its Now describes. All rules go by
	// one reading of it, fresh for every attempt at a decision. It may step back.
	//
	// If processes share a store, their clocks should agree. A clock that is ahead of the
	// others spends its lead early and can block them for as long. A clock that is more than
	// 10 s behind both the clock of the store's server and that of another process can admit
	// a burst that is already used, and again after every quiet gap, because the server has
	// dropped the record by then. The remedy is StoreClock: it goes by the server's clock.
	Clock func() time.Time
	// StoreClock makes decisions go by the time of the store's server, PostgreSQL's or
	// Redis's, as far as it is known, so that processes whose clocks disagree decide alike; nil
	// goes by Clock. One StoreClock may serve all limiters of one database.
	//
	//	StoreClock: &storage.ServerClock{Server: store}
	//
	// A decision for which a reading is due takes one round trip more. If the
	// first reading fails, the decision does, and OnFailure applies.
	StoreClock *storage.ServerClock
	// MaxSkew is by how much the states may be ahead of the clock that decides
	// before the decision says so in its Err, as ErrSkew: another process, whose
	// clock is or was ahead, may be blocking this one. The decision stands. 0
	// means never to say so; Decision.Skew is there in any case.
	MaxSkew time.Duration
	// Budget is the longest that one decision may take if the caller's context
	// does not end sooner; 0 means storage.DefaultBudget. While the database is away
	// each decision tries for that long, and then OnFailure applies: take for it
	// what a call may be held up, and some round trips at least.
	Budget time.Duration
	// FailFast ends these waits in an outage that lasts: when the store has failed for
	// that long, whenever it was asked, one decision at a time still tries, and to the
	// others OnFailure applies at once, until the store has answered one. 0 means that
	// each tries for its Budget. Denials that are remembered stand in any case. A first
	// reading of StoreClock is tried by each.
	FailFast time.Duration
	// MaxAge is for how long a remembered state may deny without a look at the
	// store; 0 means until the denial's own RetryAfter. Another process that
	// resets or refunds a key, or raises its limit, is seen no later than that.
	MaxAge time.Duration
	// Remember is how many keys to remember states of; see
	// storage.EngineOptions.
	Remember int
	// NoCombining, NoSharing, InFlight and Queue are about decisions that meet on
	// their way to the store; see storage.EngineOptions.
	NoCombining bool
	NoSharing   bool
	InFlight    int
	Queue       int
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
	case o.Clock != nil && o.StoreClock != nil:
		return nil, errors.New("compose: Options.Clock and Options.StoreClock exclude each other")
	case o.StoreClock != nil && o.StoreClock.Server == nil:
		return nil, errors.New("compose: Options.StoreClock has no Server")
	case o.Budget < 0:
		return nil, fmt.Errorf("compose: Options.Budget must be at least 0, got %v", o.Budget)
	case o.FailFast < 0:
		return nil, fmt.Errorf("compose: Options.FailFast must be at least 0, got %v", o.FailFast)
	case o.MaxAge < 0:
		return nil, fmt.Errorf("compose: Options.MaxAge must be at least 0, got %v", o.MaxAge)
	case o.MaxSkew < 0:
		return nil, fmt.Errorf("compose: Options.MaxSkew must be at least 0, got %v", o.MaxSkew)
	case o.InFlight < 0:
		return nil, fmt.Errorf("compose: Options.InFlight must be at least 0, got %d", o.InFlight)
	case o.Queue < 0:
		return nil, fmt.Errorf("compose: Options.Queue must be at least 0, got %d", o.Queue)
	case o.OnFailure > FailLocal:
		return nil, fmt.Errorf("compose: Options.OnFailure must be FailClosed, FailOpen or FailLocal, got %d", o.OnFailure)
	}
	return newLimiter(o, store, rules)
}

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
