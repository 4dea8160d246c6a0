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

func TestContentionEndsWithTheTimeout(t *testing.T) {
	each(t, []way{bySwaps, bySwapsClock, declined, callerWays[2]}, engine.Options{Timeout: 2 * time.Second}, func(b *bench) {
		b.store.before = func([]string) error { b.store.put("k", "x"); return nil } // somebody is always faster
		c := b.decide(newCall(counter(1000), "k"))
		require.ErrorIs(b, c.err, storage.ErrContended)
		require.ErrorIs(b, c.err, storage.ErrNotApplied)
		require.NotErrorIs(b, c.err, storage.ErrUnavailable)
		require.Equal(b, 2*time.Second, c.took)
		require.Greater(b, c.how.Attempts, 40)
		require.Less(b, c.how.Attempts, 20_000)
	})
}

func TestContentionThatTheStoreReportsEndsWithTheTimeout(t *testing.T) {
	each(t, append(batchWays, callerWays...), engine.Options{Timeout: time.Second}, func(b *bench) {
		b.store.before = func([]string) error { return storage.ErrContended }
		c := b.decide(newCall(counter(1000), "k"))
		require.ErrorIs(b, c.err, storage.ErrContended)
		require.ErrorIs(b, c.err, storage.ErrNotApplied)
		require.Equal(b, time.Second, c.took)
		b.store.before = nil
		b.allowed(b.decide(newCall(counter(1), "k")))
	})
}

func TestAnOutageEndsWithTheTimeoutAndRecovers(t *testing.T) {
	each(t, append(remoteWays, callerWays...), engine.Options{Timeout: time.Second, OpenAfter: -1}, func(b *bench) {
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

func TestAShortOutageIsWaitedFor(t *testing.T) {
	each(t, append(remoteWays, callerWays...), engine.Options{Timeout: time.Second}, func(b *bench) {
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

func TestAFaultThatStaysIsReturnedAtOnce(t *testing.T) {
	each(t, append(remoteWays, callerWays...), engine.Options{}, func(b *bench) {
		broken := storage.NotApplied(errors.New("no such table"))
		b.store.before = func([]string) error { return broken }
		c := b.decide(newCall(counter(1), "k"))
		require.Equal(b, broken, c.err)
		require.Zero(b, c.took)
		require.Len(b, b.store.trips, 1)
	})
}

// A store that has failed for a while fails for the callers whose time it was, not for the others.
func TestTheCallersTimeIsNoOutage(t *testing.T) {
	each(t, append(remoteWays, callerWays...), engine.Options{Timeout: time.Second}, func(b *bench) {
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

// Requests that wait behind round trips that hang have not been sent. Who has been sent may have been stored.
func TestASilentStoreIsAnOutage(t *testing.T) {
	each(t, []way{onServer, inTransaction}, engine.Options{Timeout: time.Second, MaxRoundTrips: 1}, func(b *bench) {
		b.close()
		b.store.deaf = true
		sent, waits := b.start(newCall(counter(9), "k")), b.start(newCall(counter(9), "k"))
		ctx, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		hasty := b.startFor(ctx, newCall(counter(9), "k"))
		b.group.Wait()
		require.ErrorIs(b, sent.err, storage.ErrOutcomeUnknown)
		require.ErrorIs(b, waits.err, storage.ErrUnavailable)
		require.ErrorIs(b, waits.err, storage.ErrNotApplied)
		require.ErrorIs(b, hasty.err, context.DeadlineExceeded)
		require.ErrorIs(b, hasty.err, storage.ErrNotApplied)
		require.NotErrorIs(b, hasty.err, storage.ErrUnavailable, "that was the caller's time")
		require.InDelta(b, time.Second, sent.took, float64(ending))
		require.Equal(b, time.Second, waits.took)
		require.Equal(b, time.Millisecond, hasty.took)
		b.open()
	})
	each(t, []way{bySwaps, bySwapsClock, callerWays[2]}, engine.Options{Timeout: time.Second}, func(b *bench) {
		b.close() // at the load, which stores nothing
		c := b.decide(newCall(counter(9), "k"))
		require.ErrorIs(b, c.err, storage.ErrUnavailable)
		require.ErrorIs(b, c.err, storage.ErrNotApplied)
		require.Equal(b, time.Second, c.took)
		b.open()
	})
}

func TestAPeekIsNeverUnknown(t *testing.T) {
	for _, warm := range []bool{false, true} {
		each(t, append(remoteWays, callerWays...), engine.Options{Timeout: time.Second}, func(b *bench) {
			if warm {
				b.warm()
			}
			b.close()
			c := b.decide(newCallOf(driver.Peek, nil, "k"))
			require.ErrorIs(b, c.err, storage.ErrUnavailable)
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
			b.open()
			b.store.after = func([]string) error { return errLost }
			c = b.decide(newCallOf(driver.Peek, nil, "k"))
			require.Error(b, c.err)
			require.NotErrorIs(b, c.err, storage.ErrOutcomeUnknown)
		})
	}
}

func TestAnErrorWhileTheTimeEndsIsTold(t *testing.T) {
	each(t, append(remoteWays, callerWays...), engine.Options{Timeout: time.Second}, func(b *bench) {
		b.store.before = func([]string) error {
			defer time.Sleep(300 * time.Millisecond)
			return storage.NotApplied(errRefused)
		}
		c := b.decide(newCall(counter(9), "k"))
		if !errors.Is(c.err, storage.ErrOutcomeUnknown) { // it was on its way
			require.ErrorIs(b, c.err, storage.ErrUnavailable)
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
			require.ErrorContains(b, c.err, "connection refused")
		}
		require.LessOrEqual(b, c.took, time.Second+300*time.Millisecond)
	})
}

// A reply that is not one to the request is an error, and allows nobody.
func TestAReplyThatIsNoneIsAnError(t *testing.T) {
	wrong := map[string]func(*driver.Batch){
		"no records":       func(b *driver.Batch) { b.Found = nil },
		"too many records": func(b *driver.Batch) { b.Found = append(b.Found, storage.Record{}) },
		"too many errors":  func(b *driver.Batch) { b.KeyErr = make([]error, len(b.Keys)+1) },
	}
	for name, lie := range wrong {
		t.Run(name, func(t *testing.T) {
			lying := way{name: "server", open: func(f *fake) storage.Store { return server{fake: f, lie: lie} }}
			each(t, []way{lying}, engine.Options{Timeout: time.Second}, func(b *bench) {
				c := b.decide(newCall(counter(9), "k"))
				require.Error(b, c.err)
				require.False(b, c.allowed)
				require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown, "the server may have stored it")
			})
		})
	}
}

// short is a store that answers with other numbers of records than it was asked for.
type short struct {
	*fake
	loads, swaps func([]storage.Record) []storage.Record
}

func (s short) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	found, err := s.fake.Load(ctx, keys...)
	if s.loads != nil {
		found = s.loads(found)
	}
	return found, err
}

func (s short) CompareAndSwap(context.Context, ...storage.Swap) ([]storage.Record, bool, error) {
	return s.swaps(nil), false, nil
}

func TestALoadOrConflictWithoutItsRecordsIsAnError(t *testing.T) {
	for _, wrong := range [][]storage.Record{nil, make([]storage.Record, 2)} {
		records := func([]storage.Record) []storage.Record { return wrong }
		loads := way{name: "loads", open: func(f *fake) storage.Store { return short{fake: f, loads: records} }}
		each(t, []way{loads}, engine.Options{}, func(b *bench) {
			c := b.decide(newCall(counter(9), "k"))
			require.ErrorContains(b, c.err, fmt.Sprint(len(wrong), " records to 1 keys"))
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
		})
		swaps := way{name: "swaps", open: func(f *fake) storage.Store { return short{fake: f, swaps: records} }}
		each(t, []way{swaps}, engine.Options{Timeout: time.Second}, func(b *bench) {
			c := b.decide(newCall(counter(9), "k"))
			require.ErrorContains(b, c.err, fmt.Sprint(len(wrong), " records to 1 swaps"))
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
		})
	}
}
