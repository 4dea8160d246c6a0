package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// A store reports contention, or another process is always faster.
func TestContentionEndsWithTheTimeout(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: 2 * time.Second}, func(b *fixture) {
		b.store.before = func([]string) error {
			if !b.swaps {
				return storage.ErrContended
			}
			b.store.put("k", "x")
			return nil
		}
		c := b.decide(newCall(counter(1000), "k"))
		require.ErrorIs(b, c.err, storage.ErrContended)
		require.ErrorIs(b, c.err, storage.ErrNotApplied)
		require.NotErrorIs(b, c.err, storage.ErrUnavailable)
		require.Equal(b, 2*time.Second, c.took)
		trips := len(b.store.tripsSoFar())
		require.Greater(b, trips, 40)
		require.Less(b, trips, 40_000)
		b.store.before = nil
		b.allowed(b.decide(newCall(counter(1000), "k")))
	})
}

func TestCallDuringAnOutageEndsWithTheTimeout(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: -1}, func(b *fixture) {
		for range 2 {
			b.store.before = always(notSent)
			c := b.decide(newCall(counter(2), "k"))
			require.ErrorIs(b, c.err, errRefused)
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
			require.Equal(b, time.Second, c.took)
			b.store.before = nil
			b.allowed(b.decide(newCall(counter(2), "k")))
		}
	})
}

func TestCallsSurviveAShortOutage(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.before = forTime(900*time.Millisecond, notSent)
		one, other := b.start(newCall(counter(2), "k")), newCall(counter(2), "k")
		b.allowed(b.decide(other))
		b.group.Wait()
		b.allowed(one)
	})
}

// The deadline of the caller's context ends the call, and not the timeout.
func TestEndedContextIsNotErrUnavailable(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.before = always(storage.ErrContended)
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		c := b.decideFor(ctx, newCall(counter(1), "k"))
		require.ErrorIs(b, c.err, context.DeadlineExceeded)
		require.ErrorIs(b, c.err, storage.ErrNotApplied)
		require.NotErrorIs(b, c.err, storage.ErrUnavailable)
		require.Equal(b, 100*time.Millisecond, c.took)
	})
}

// A sent request may have been stored. A waiting request was not sent.
func TestHangingStoreIsErrUnavailable(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{Timeout: time.Second, MaxRoundTrips: 1}, func(b *fixture) {
		if b.name == inTransaction.name {
			b.warm() // a caller on a server would then send its own request
		}
		b.hold()
		b.store.ignoresContext = true
		sent, waits := b.start(newCall(counter(9), "k")), b.start(newCall(counter(9), "k"))
		late, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		gone, leave := context.WithCancel(background)
		expired, cancelled := b.startFor(late, newCall(counter(9), "k")), b.startFor(gone, newCall(counter(9), "k"))
		leave()
		b.group.Wait()
		require.ErrorIs(b, sent.err, storage.ErrOutcomeUnknown)
		require.ErrorIs(b, waits.err, storage.ErrUnavailable)
		require.ErrorIs(b, waits.err, storage.ErrNotApplied)
		require.ErrorIs(b, expired.err, context.DeadlineExceeded)
		require.ErrorIs(b, expired.err, storage.ErrNotApplied)
		require.NotErrorIs(b, expired.err, storage.ErrUnavailable, "the caller's context ended it")
		require.ErrorIs(b, cancelled.err, context.Canceled)
		require.InDelta(b, time.Second, sent.took, float64(expiryGrace))
		require.Equal(b, []time.Duration{time.Second, time.Millisecond, 0}, []time.Duration{waits.took, expired.took, cancelled.took})
		b.releaseAll()
	})
	forEachWay(t, []way{bySwaps, onlySwaps}, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.hold() // the load waits; it stores nothing
		c := b.decide(newCall(counter(9), "k"))
		require.ErrorIs(b, c.err, storage.ErrUnavailable)
		require.ErrorIs(b, c.err, storage.ErrNotApplied)
		require.Equal(b, time.Second, c.took)
		b.releaseAll()
	})
}

// The callers of a key wait for each other. If the store does not answer, they must not take that for contention, and the
// circuit breaker must open.
func TestOutageIsNotContention(t *testing.T) {
	for _, takes := range []time.Duration{0, 400 * time.Millisecond} {
		forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
			if b.hold(); takes > 0 {
				b.releaseAll()
				b.store.before = func([]string) error {
					time.Sleep(takes)
					return notSent
				}
			}
			var calls []*call
			for range 30 {
				calls = append(calls, b.start(newCall(counter(1000), "k")))
				time.Sleep(100 * time.Millisecond)
			}
			b.group.Wait()
			for _, c := range calls {
				require.NotErrorIs(b, c.err, storage.ErrContended)
				require.NotContains(b, c.err.Error(), storage.ErrContended.Error())
				if !errors.Is(c.err, storage.ErrOutcomeUnknown) {
					require.ErrorIs(b, c.err, storage.ErrUnavailable)
				}
			}
			require.Less(b, calls[29].took, time.Second, "the circuit breaker is open")
			if takes == 0 {
				b.releaseAll()
			}
		})
	}
}

// The server declined the call, and took most of the time for that.
func TestSlowStoreIsNotContention(t *testing.T) {
	for _, takes := range []time.Duration{600 * time.Millisecond, time.Second + expiryGrace/2} {
		forEachWay(t, []way{declined}, engine.Options{Timeout: time.Second}, func(b *fixture) {
			b.store.takes, b.store.ignoresContext = takes, true
			c := b.decide(newCall(counter(9), "k"))
			require.ErrorIs(b, c.err, storage.ErrUnavailable)
			require.NotErrorIs(b, c.err, storage.ErrContended)
		})
	}
}

func TestPeekIsNeverErrOutcomeUnknown(t *testing.T) {
	for _, warm := range []bool{false, true} {
		forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
			if warm {
				b.warm()
			}
			b.hold()
			c := b.decide(newCallOf(driver.Peek, nil, "k"))
			require.ErrorIs(b, c.err, storage.ErrUnavailable)
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
			b.releaseAll()
			b.store.after = always(errLost)
			c = b.decide(newCallOf(driver.Peek, nil, "k"))
			require.Error(b, c.err)
			require.NotErrorIs(b, c.err, storage.ErrOutcomeUnknown)
		})
	}
}

// The last attempt only runs out of time. The error of an earlier attempt says what is wrong.
func TestTimeoutKeepsTheReasonOfAnEarlierAttempt(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.before = func([]string) error {
			b.hold()
			return notSent
		}
		c := b.decide(newCall(counter(9), "k"))
		require.ErrorIs(b, c.err, storage.ErrUnavailable)
		require.ErrorContains(b, c.err, "connection refused")
		c = b.decide(newCall(counter(9), "k")) // the circuit breaker is open
		require.ErrorIs(b, c.err, storage.ErrUnavailable)
		require.ErrorContains(b, c.err, "connection refused")
		b.releaseAll()
	})
}

func TestMalformedReplyIsErrOutcomeUnknown(t *testing.T) {
	wrong := map[string]func(*driver.Batch){
		"no records":       func(b *driver.Batch) { b.Found = nil },
		"too many records": func(b *driver.Batch) { b.Found = append(b.Found, storage.Record{}) },
		"too many errors":  func(b *driver.Batch) { b.KeyErr = make([]error, len(b.Keys)+1) },
	}
	for name, lie := range wrong {
		forEachWay(t, []way{lying(lie)}, engine.Options{Timeout: time.Second}, func(b *fixture) {
			c := b.decide(newCall(counter(9), "k"))
			require.False(b, c.allowed)
			require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown, "%s: the server may have stored it", name)
		})
	}
}

// wrongCount is a store that returns the wrong records.
type wrongCount struct {
	*fakeStore
	records []storage.Record
}

func (s wrongCount) Load(context.Context, ...string) ([]storage.Record, time.Time, error) {
	return s.records, time.Now(), nil
}

func TestWrongNumberOfRecordsIsAnError(t *testing.T) {
	for _, wrong := range [][]storage.Record{nil, make([]storage.Record, 2)} {
		loads := way{name: "loads", open: func(f *fakeStore) storage.Store { return wrongCount{f, wrong} }}
		forEachWay(t, []way{loads}, engine.Options{}, func(b *fixture) {
			c := b.decide(newCall(counter(9), "k"))
			require.ErrorContains(b, c.err, fmt.Sprint(len(wrong), " records to 1 keys"))
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
		})
	}
}

// The timeout of a call counts from when it began, which can be before Decide.
func TestTimeoutCountsFromTheBeginOfTheCall(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.hold()
		for _, left := range []time.Duration{400 * time.Millisecond, 0, -time.Second} {
			c := newCall(counter(9), "k")
			c.Began = time.Now().Add(left - time.Second)
			b.decide(c)
			require.InDelta(b, max(left, 0), c.took, float64(expiryGrace))
			require.ErrorIs(b, c.err, storage.ErrUnavailable)
			require.Equal(b, left > 0, len(b.store.tripsSoFar()) > 0, "without time left, there is no round trip")
			b.forgetTrips()
		}
		b.releaseAll()
	})
}
