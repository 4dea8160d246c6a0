package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

func TestContentionEndsWithTheTimeout(t *testing.T) {
	forEachWay(t, []way{bySwaps, onlySwaps, declined}, engine.Options{Timeout: 2 * time.Second}, func(b *fixture) {
		b.store.before = func([]string) error { b.store.put("k", "x"); return nil } // another process is always faster
		c := b.decide(newCall(counter(1000), "k"))
		require.ErrorIs(b, c.err, storage.ErrContended)
		require.ErrorIs(b, c.err, storage.ErrNotApplied)
		require.NotErrorIs(b, c.err, storage.ErrUnavailable)
		require.Equal(b, 2*time.Second, c.took)
		require.Greater(b, c.stats.Attempts, 40)
		require.Less(b, c.stats.Attempts, 20_000)
	})
}

func TestContentionThatTheStoreReportsEndsWithTheTimeout(t *testing.T) {
	forEachWay(t, batchWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.before = func([]string) error { return storage.ErrContended }
		c := b.decide(newCall(counter(1000), "k"))
		require.ErrorIs(b, c.err, storage.ErrContended)
		require.ErrorIs(b, c.err, storage.ErrNotApplied)
		require.Equal(b, time.Second, c.took)
		b.store.before = nil
		b.allowed(b.decide(newCall(counter(1), "k")))
	})
}

func TestCallDuringAnOutageEndsWithTheTimeout(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second, OpenAfter: -1}, func(b *fixture) {
		for range 2 {
			b.store.before = func([]string) error { return storage.NotApplied(errRefused) }
			c := b.decide(newCall(counter(2), "k"))
			require.ErrorIs(b, c.err, storage.ErrUnavailable)
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
			require.ErrorContains(b, c.err, "connection refused")
			require.Equal(b, time.Second, c.took)
			b.store.before = nil
			b.allowed(b.decide(newCall(counter(2), "k")))
		}
	})
}

func TestCallsSurviveAShortOutage(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		began := time.Now()
		b.store.before = func([]string) error {
			if time.Since(began) < 900*time.Millisecond {
				return storage.NotApplied(errRefused)
			}
			return nil
		}
		one, other := b.start(newCall(counter(2), "k")), newCall(counter(2), "k")
		b.allowed(b.decide(other))
		b.group.Wait()
		b.allowed(one)
	})
}

func TestPermanentErrorIsReturnedAtOnce(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{}, func(b *fixture) {
		broken := storage.NotApplied(errors.New("no such table"))
		b.store.before = func([]string) error { return broken }
		c := b.decide(newCall(counter(1), "k"))
		require.Equal(b, broken, c.err)
		require.Zero(b, c.took)
		require.Len(b, b.store.trips, 1)
	})
}

// The deadline of the caller's context ends the call, and not the timeout.
func TestEndedContextIsNotErrUnavailable(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.before = func([]string) error { return storage.ErrContended }
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
	forEachWay(t, []way{onServer, inTransaction}, engine.Options{Timeout: time.Second, MaxRoundTrips: 1}, func(b *fixture) {
		b.hold()
		b.store.ignoresContext = true
		sent, waits := b.start(newCall(counter(9), "k")), b.start(newCall(counter(9), "k"))
		ctx, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		cancelled := b.startFor(ctx, newCall(counter(9), "k"))
		b.group.Wait()
		require.ErrorIs(b, sent.err, storage.ErrOutcomeUnknown)
		require.ErrorIs(b, waits.err, storage.ErrUnavailable)
		require.ErrorIs(b, waits.err, storage.ErrNotApplied)
		require.ErrorIs(b, cancelled.err, context.DeadlineExceeded)
		require.ErrorIs(b, cancelled.err, storage.ErrNotApplied)
		require.NotErrorIs(b, cancelled.err, storage.ErrUnavailable, "the caller's context ended it")
		require.InDelta(b, time.Second, sent.took, float64(expiryGrace))
		require.Equal(b, time.Second, waits.took)
		require.Equal(b, time.Millisecond, cancelled.took)
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
					return storage.NotApplied(errRefused)
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
			b.store.after = func([]string) error { return errLost }
			c = b.decide(newCallOf(driver.Peek, nil, "k"))
			require.Error(b, c.err)
			require.NotErrorIs(b, c.err, storage.ErrOutcomeUnknown)
		})
	}
}

func TestTimeoutReportsTheLastError(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.before = func([]string) error {
			defer time.Sleep(300 * time.Millisecond)
			return storage.NotApplied(errRefused)
		}
		c := b.decide(newCall(counter(9), "k"))
		if !errors.Is(c.err, storage.ErrOutcomeUnknown) { // it was in flight
			require.ErrorIs(b, c.err, storage.ErrUnavailable)
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
			require.ErrorContains(b, c.err, "connection refused")
		}
		require.LessOrEqual(b, c.took, time.Second+300*time.Millisecond)
	})
}

// The last attempt only runs out of time. The error of an earlier attempt says what is wrong.
func TestTimeoutKeepsTheReasonOfAnEarlierAttempt(t *testing.T) {
	forEachWay(t, remoteWays, engine.Options{Timeout: time.Second}, func(b *fixture) {
		b.store.before = func([]string) error {
			b.hold()
			return storage.NotApplied(errRefused)
		}
		c := b.decide(newCall(counter(9), "k"))
		require.ErrorIs(b, c.err, storage.ErrUnavailable)
		require.ErrorContains(b, c.err, "connection refused")
		c = b.decide(newCall(counter(9), "k")) // the circuit breaker is open
		require.ErrorIs(b, c.err, storage.ErrUnavailable)
		if !strings.Contains(b.name, "caller") {
			require.ErrorContains(b, c.err, "connection refused")
		}
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
		t.Run(name, func(t *testing.T) {
			lying := way{name: "server", open: func(f *fakeStore) storage.Store { return server{fakeStore: f, lie: lie} }}
			forEachWay(t, []way{lying}, engine.Options{Timeout: time.Second}, func(b *fixture) {
				c := b.decide(newCall(counter(9), "k"))
				require.Error(b, c.err)
				require.False(b, c.allowed)
				require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown, "the server may have stored it")
			})
		})
	}
}

// wrongCount is a store that returns a wrong number of records.
type wrongCount struct {
	*fakeStore
	loads func([]storage.Record) []storage.Record
}

func (s wrongCount) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	found, now, err := s.fakeStore.Load(ctx, keys...)
	return s.loads(found), now, err
}

func TestWrongNumberOfRecordsIsAnError(t *testing.T) {
	for _, wrong := range [][]storage.Record{nil, make([]storage.Record, 2)} {
		records := func([]storage.Record) []storage.Record { return wrong }
		loads := way{name: "loads", open: func(f *fakeStore) storage.Store { return wrongCount{fakeStore: f, loads: records} }}
		forEachWay(t, []way{loads}, engine.Options{}, func(b *fixture) {
			c := b.decide(newCall(counter(9), "k"))
			require.ErrorContains(b, c.err, fmt.Sprint(len(wrong), " records to 1 keys"))
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
		})
	}
}
