package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// write returns the number of the round trip that writes.
func (b *fixture) write() int {
	if b.swaps {
		return 2
	}
	return 1
}

var (
	waysWithReplies = append(lossyWays, inTransaction)
	// In these ways, a round trip whose request was lost may have been applied.
	lossyWays = []way{onServer, bySwaps, onlySwaps}
)

// The units may be taken again, but only once, and never beyond the limit.
func TestRequestWithALostReplyIsDecidedAgain(t *testing.T) {
	for _, test := range []struct {
		ways            []way
		limit           int64
		stored, allowed bool
		state           string
	}{{waysWithReplies, 9, true, true, "xx"}, {waysWithReplies, 1, true, false, "x"}, {lossyWays, 1, false, true, "x"}} {
		forEachWay(t, test.ways, engine.Options{}, func(b *fixture) {
			if b.store.after = onTrip(b.write(), errLost); !test.stored {
				b.store.before, b.store.after = b.store.after, nil
			}
			c := b.decide(newCall(counter(test.limit), "k"))
			require.NoError(b, c.err)
			require.Equal(b, test.allowed, c.allowed)
			require.Equal(b, test.state, b.store.state("k"))
		})
	}
}

func TestRequestWithTwoLostRepliesIsErrOutcomeUnknown(t *testing.T) {
	forEachWay(t, waysWithReplies, engine.Options{}, func(b *fixture) {
		first, second := onTrip(b.write(), errLost), onTrip(2*b.write(), errLost)
		b.store.after = func(keys []string) error { return errors.Join(first(keys), second(keys)) }
		c := b.decide(newCall(counter(9), "k"))
		require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
		require.Equal(b, "xx", b.store.state("k"))
	})
}

func TestRefundWithALostReplyIsNeverRepeated(t *testing.T) {
	for want, stored := range map[string]bool{"xxx": true, "xxxx": false} {
		forEachWay(t, lossyWays, engine.Options{}, func(b *fixture) {
			b.store.put("k", "xxxx")
			if b.store.after = onTrip(b.write(), errLost); !stored {
				b.store.before, b.store.after = b.store.after, nil
			}
			c := b.decide(newCallOf(driver.Refund, counter(4), "k"))
			require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
			require.NotErrorIs(b, c.err, storage.ErrNotApplied)
			require.Equal(b, want, b.store.state("k"))
		})
	}
}

// A failed request stores nothing, so its outcome is known.
func TestErrorInATransactionWithALostReplyIsNotErrOutcomeUnknown(t *testing.T) {
	forEachWay(t, []way{inTransaction}, engine.Options{}, func(b *fixture) {
		b.store.after = onTrip(1, errLost)
		c := newCall(counter(9), "a", "b")
		b.store.put("b", "damaged")
		b.decide(c)
		require.Error(b, c.err)
		require.NotErrorIs(b, c.err, storage.ErrOutcomeUnknown)
	})
}

// A denial stores nothing, so its outcome is known.
func TestDenialIsNeverErrOutcomeUnknown(t *testing.T) {
	forEachWay(t, waysWithReplies, engine.Options{}, func(b *fixture) {
		b.store.put("k", "xx")
		b.store.after = onTrip(1, errLost)
		if c := b.decide(newCall(counter(2), "k")); c.err != nil {
			require.NotErrorIs(b, c.err, storage.ErrOutcomeUnknown)
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
		}
		b.denied(b.decide(newCall(counter(2), "k")))
	})
}

func TestRequestInFlightAtTheTimeoutIsErrOutcomeUnknown(t *testing.T) {
	for _, warm := range []bool{false, true} {
		forEachWay(t, append(lossyWays, declined), engine.Options{Timeout: time.Second, OpenAfter: -1}, func(b *fixture) {
			if warm {
				b.warm()
			}
			b.hold()
			c := b.start(newCall(counter(9), "k"))
			for range b.write() - 1 {
				b.releaseOne()
			}
			if b.name == declined.name {
				b.releaseOne()
			}
			b.group.Wait()
			require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
			require.NotErrorIs(b, c.err, storage.ErrNotApplied)
			require.InDelta(b, time.Second, c.took, float64(expiryGrace))
			b.releaseAll()
			b.allowed(b.decide(newCall(counter(9), "k")))
		})
	}
}

// A later attempt was not applied, but the first one may have been.
func TestErrOutcomeUnknownIsNeverErrNotApplied(t *testing.T) {
	forEachWay(t, lossyWays, engine.Options{}, func(b *fixture) {
		n := 0
		b.store.before = func([]string) error {
			switch n++; {
			case n == b.write():
				return errRefused
			case n > b.write():
				return storage.NotApplied(errRefused)
			}
			return nil
		}
		c := b.decide(newCall(counter(9), "k"))
		require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
		require.NotErrorIs(b, c.err, storage.ErrNotApplied)
	})
}

func TestPartialWriteIsErrOutcomeUnknownAtOnce(t *testing.T) {
	forEachWay(t, waysWithReplies, engine.Options{}, func(b *fixture) {
		n := 0
		b.store.after = func([]string) error {
			if n++; n >= b.write() {
				return errors.Join(storage.ErrPartialWrite, errLost)
			}
			return nil
		}
		c := b.decide(newCall(counter(9), "a", "b"))
		require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
		require.ErrorIs(b, c.err, storage.ErrPartialWrite)
		require.Zero(b, c.took)
	})
}

func TestBatchWithALostReplyNeverExceedsTheLimit(t *testing.T) {
	for _, stored := range []bool{true, false} {
		forEachWay(t, []way{onServer}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
			var calls []*call
			for range 5 {
				calls = append(calls, newCall(counter(4), "hot"))
			}
			own := newCall(counter(4), "own")
			if b.store.after = onTrip(2, errLost); !stored {
				b.store.before, b.store.after = b.store.after, nil
			}
			b.inOneBatch(append(calls, own)...)
			allowed := 0
			for _, c := range calls {
				require.NoError(b, c.err)
				if c.allowed {
					allowed++
				}
			}
			require.LessOrEqual(b, allowed, 4)
			require.Equal(b, "xxxx", b.store.state("hot"))
			b.allowed(own)
			if !stored {
				require.Equal(b, 4, allowed)
			}
		})
	}
}

// The call is cancelled between the load and the swap, and returns ErrNotApplied.
func TestNothingIsStoredForACallCancelledBeforeTheSwap(t *testing.T) {
	forEachWay(t, []way{bySwaps, onlySwaps, declined}, engine.Options{}, func(b *fixture) {
		ctx, cancel := context.WithCancel(background)
		b.hold()
		c := b.startFor(ctx, newCall(counter(9), "k"))
		if b.batches {
			b.releaseOne() // the server declines the batch
		}
		cancel()
		synctest.Wait()
		require.ErrorIs(b, c.err, context.Canceled)
		require.ErrorIs(b, c.err, storage.ErrNotApplied)
		b.releaseAll()
		time.Sleep(2 * time.Second)
		require.Empty(b, b.store.state("k"))
	})
}

// After the lost reply, another process writes a state that cannot be read.
func TestErrorAfterALostReplyIsErrOutcomeUnknown(t *testing.T) {
	forEachWay(t, lossyWays, engine.Options{}, func(b *fixture) {
		lost := onTrip(b.write(), errLost)
		b.store.after = func(keys []string) error {
			err := lost(keys)
			if err != nil {
				b.store.put("k", "damaged")
			}
			return err
		}
		require.ErrorIs(b, b.decide(newCall(counter(3), "k")).err, storage.ErrOutcomeUnknown)
	})
}

// A reply is lost, the server declines the second attempt, and the queue is full.
func TestCallWhoseReplyWasLostIsNotRefused(t *testing.T) {
	lost := false
	declines := lying(func(b *driver.Batch) {
		if lost {
			b.Requests[0].Applied = driver.Declined
		}
	})
	forEachWay(t, []way{declines}, engine.Options{MaxQueue: 1, Timeout: time.Second}, func(b *fixture) {
		b.store.after = func([]string) error {
			if !lost {
				lost = true
				return errLost
			}
			b.store.after = nil
			b.hold()
			for range 2 { // one swaps, and the other one waits for that and fills the queue
				b.group.Go(func() { b.decide(newCallOf(driver.Reset, nil, "k")) })
			}
			time.Sleep(time.Millisecond)
			return nil
		}
		c := b.start(newCall(counter(9), "k"))
		time.Sleep(100 * time.Millisecond)
		b.releaseAll()
		b.group.Wait()
		b.allowed(c)
	})
}
