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

// losing loses the replies of round trips by their number, from 1. Those of loads count too.
func (b *bench) losing(numbers ...int) {
	n := 0
	b.store.after = func([]string) error {
		n++
		for _, at := range numbers {
			if at == n {
				return errLost
			}
		}
		return nil
	}
}

// write is the number of the round trip that writes.
func (b *bench) write() int {
	if b.swaps {
		return 2
	}
	return 1
}

var provingWays = []way{onServer, bySwaps, bySwapsClock, callerWays[0], callerWays[2]}

func TestAStoredRequestWhoseReplyWasLostIsAnswered(t *testing.T) {
	each(t, provingWays, engine.Options{}, func(b *bench) {
		b.losing(b.write(), b.write()+1)
		c := b.allowed(b.decide(newCall(counter(9), "k", "j")))
		require.Equal(b, "x", b.store.state("k"))
		require.Equal(b, "x", b.store.state("j"))
		require.Equal(b, !b.swaps, c.confirmed)
	})
}

func TestARequestThatWasNotStoredIsDecidedAfresh(t *testing.T) {
	each(t, provingWays, engine.Options{}, func(b *bench) {
		n := 0
		b.store.before = func([]string) error {
			if n++; n == b.write() {
				return errLost
			}
			return nil
		}
		c := b.allowed(b.decide(newCall(counter(1), "k")))
		require.False(b, c.confirmed)
		require.Equal(b, "x", b.store.state("k"))
	})
}

// A request that another process has overwritten since proves nothing: it is decided afresh. Its
// units are taken once more, but never more than the limit.
func TestAStoredRequestThatWasOverwrittenIsDecidedAfresh(t *testing.T) {
	each(t, provingWays, engine.Options{}, func(b *bench) {
		b.losing(b.write())
		n := 0
		b.store.before = func([]string) error {
			if n++; n == b.write()+1 {
				b.store.put("k", "xx")
			}
			return nil
		}
		b.allowed(b.decide(newCall(counter(3), "k")))
		require.Equal(b, "xxx", b.store.state("k"))
	})
}

func TestALostRefundIsNeverRepeated(t *testing.T) {
	for name, stored := range map[string]bool{"stored": true, "not stored": false} {
		t.Run(name, func(t *testing.T) {
			each(t, provingWays, engine.Options{}, func(b *bench) {
				b.store.put("k", "xxxx")
				n := 0
				lose := func([]string) error {
					if n++; n == b.write() {
						return errLost
					}
					return nil
				}
				if b.store.after = lose; !stored {
					b.store.before, b.store.after = lose, nil
				}
				c := b.decide(newCallOf(driver.Refund, counter(4), "k"))
				if c.err != nil {
					require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
					require.NotErrorIs(b, c.err, storage.ErrNotApplied)
				} else {
					require.Equal(b, "xxx", b.store.state("k"))
				}
				require.GreaterOrEqual(b, len(b.store.state("k")), 3)
				if stored {
					require.NoError(b, c.err, "the version proves it")
				}
			})
		})
	}
}

func TestALostRefundThatWasOverwrittenIsUnknown(t *testing.T) {
	each(t, append(provingWays, inTransaction), engine.Options{}, func(b *bench) {
		b.store.put("k", "xxxx")
		b.losing(b.write())
		n := 0
		b.store.before = func([]string) error {
			if n++; n == b.write()+1 {
				b.store.put("k", "xxxx")
			}
			return nil
		}
		c := b.decide(newCallOf(driver.Refund, counter(4), "k"))
		require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
		require.NotErrorIs(b, c.err, storage.ErrNotApplied)
		if b.name != inTransaction.name {
			require.Equal(b, "xxxx", b.store.state("k"), "it is not applied again")
		}
	})
}

// Of refunds that share a key, the version does not tell which was stored: none is repeated.
func TestLostRefundsOfOneKeyAreNeverRepeated(t *testing.T) {
	each(t, []way{onServer}, engine.Options{MaxRoundTrips: 1}, func(b *bench) {
		b.store.put("k", "xxxxxxxx")
		b.close()
		b.start(newCall(counter(9), "first"))
		refunds := []*call{b.start(newCallOf(driver.Refund, counter(9), "k")), b.start(newCallOf(driver.Refund, counter(9), "k"))}
		b.losing(2)
		b.open()
		b.group.Wait()
		for _, c := range refunds {
			require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
		}
		require.Len(b, b.store.state("k"), 6)
	})
}

// A trip that has lost a reply says nothing about the requests of later ones.
func TestAfterALostReplyAllIsAsBefore(t *testing.T) {
	each(t, append(provingWays, inTransaction), engine.Options{}, func(b *bench) {
		b.losing(b.write())
		b.decide(newCall(counter(9), "k"))
		for range 3 {
			b.store.put("k", "xxxx")
			require.NoError(b, b.decide(newCallOf(driver.Refund, counter(9), "k")).err)
			require.Equal(b, "xxx", b.store.state("k"))
			require.NoError(b, b.decide(newCallOf(driver.Reset, nil, "k")).err)
			require.Empty(b, b.store.state("k"))
			time.Sleep(time.Second)
		}
	})
}

func TestALostTransactionIsUnknown(t *testing.T) {
	each(t, []way{inTransaction, callerWays[1]}, engine.Options{}, func(b *bench) {
		b.losing(1)
		c := b.decide(newCall(counter(9), "k"))
		require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
		require.NotErrorIs(b, c.err, storage.ErrNotApplied)
		require.ErrorIs(b, c.err, errLost)
		b.allowed(b.decide(newCall(counter(9), "k")))
	})
}

// In a lost transaction, only what was to be stored is unknown.
func TestAnErrorInALostTransactionIsNotUnknown(t *testing.T) {
	each(t, []way{inTransaction, callerWays[1]}, engine.Options{}, func(b *bench) {
		b.losing(1)
		c := newCall(counter(9), "a", "b")
		b.store.put("b", "damaged")
		b.decide(c)
		require.Error(b, c.err)
		require.NotErrorIs(b, c.err, storage.ErrOutcomeUnknown)
	})
}

// A denial stores nothing, so nothing of it can be unknown.
func TestADenialIsNeverUnknown(t *testing.T) {
	each(t, append(provingWays, inTransaction, callerWays[1]), engine.Options{}, func(b *bench) {
		b.store.put("k", "xx")
		b.losing(1)
		if c := b.decide(newCall(counter(2), "k")); c.err != nil {
			require.NotErrorIs(b, c.err, storage.ErrOutcomeUnknown)
			require.ErrorIs(b, c.err, storage.ErrNotApplied)
		}
		b.denied(b.decide(newCall(counter(2), "k")))
	})
}

func TestARepliesLostForGoodAreUnknownWithinTheTimeout(t *testing.T) {
	for _, warm := range []bool{false, true} {
		each(t, append(provingWays, declined), engine.Options{Timeout: time.Second}, func(b *bench) {
			if warm {
				b.warm()
			}
			writes := b.write()
			if b.name == declined.name {
				writes++
			}
			n := 0
			b.store.after = func([]string) error {
				if n++; n >= writes {
					return errLost
				}
				return nil
			}
			c := b.decide(newCall(counter(9), "k"))
			require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
			require.NotErrorIs(b, c.err, storage.ErrNotApplied)
			require.Equal(b, time.Second, c.took)
			require.Equal(b, "x", b.store.state("k"), "stored once, however often it was sent")
			b.store.after = nil
			b.allowed(b.decide(newCall(counter(2), "k")))
		})
	}
}

// That a later attempt was not applied does not prove it of the first.
func TestAnUnknownOutcomeIsNeverSaidNotToBeApplied(t *testing.T) {
	each(t, provingWays, engine.Options{}, func(b *bench) {
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

func TestATornWriteIsUnknownAtOnce(t *testing.T) {
	each(t, provingWays, engine.Options{}, func(b *bench) {
		n := 0
		b.store.after = func([]string) error {
			if n++; n >= b.write() {
				return errors.Join(storage.ErrTorn, errLost)
			}
			return nil
		}
		c := b.decide(newCall(counter(9), "a", "b"))
		require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
		require.ErrorIs(b, c.err, storage.ErrTorn)
		require.Zero(b, c.took)
	})
}

// A write that is torn while its outcome is looked for proves nothing.
func TestAWriteThatIsTornLaterIsUnknown(t *testing.T) {
	each(t, provingWays, engine.Options{}, func(b *bench) {
		n := 0
		b.store.before = func([]string) error {
			switch n++; n {
			case b.write():
				return errLost
			case b.write() + 1:
				b.store.put("a", "torn")
				return storage.ErrTorn
			}
			return nil
		}
		require.ErrorIs(b, b.decide(newCall(counter(9), "a", "b")).err, storage.ErrOutcomeUnknown)
	})
}

// Of requests that share a key, the version does not tell which was allowed: those are decided afresh.
func TestALostBatchNeverAdmitsMoreThanTheLimit(t *testing.T) {
	for _, stored := range []bool{true, false} {
		each(t, []way{onServer}, engine.Options{MaxRoundTrips: 1}, func(b *bench) {
			b.close()
			calls := []*call{b.start(newCall(counter(9), "first"))}
			for range 5 {
				calls = append(calls, b.start(newCall(counter(4), "hot")))
			}
			own := b.start(newCall(counter(4), "own"))
			n := 0
			lose := func([]string) error {
				if n++; n == 2 {
					return errLost
				}
				return nil
			}
			if b.store.after = lose; !stored {
				b.store.before, b.store.after = lose, nil
			}
			b.open()
			b.group.Wait()
			allowed := 0
			for _, c := range calls[1:] {
				require.NoError(b, c.err)
				if c.allowed {
					allowed++
				}
			}
			require.LessOrEqual(b, allowed, 4)
			require.Equal(b, "xxxx", b.store.state("hot"))
			require.Equal(b, stored, b.allowed(own).confirmed)
			require.Equal(b, "x", b.store.state("own"))
			if !stored {
				require.Equal(b, 4, allowed)
			}
		})
	}
}

// A caller that is told that nothing was applied can rely on it, also if it left between a load and a swap.
func TestNothingIsStoredForACallerThatLeftBeforeTheSwap(t *testing.T) {
	each(t, []way{bySwaps, bySwapsClock, declined}, engine.Options{}, func(b *bench) {
		ctx, cancel := context.WithCancel(background)
		b.close()
		c := b.startFor(ctx, newCall(counter(9), "k"))
		if b.batches {
			b.pass() // the batch of the server, which declines
		}
		cancel()
		synctest.Wait()
		require.ErrorIs(b, c.err, context.Canceled)
		require.ErrorIs(b, c.err, storage.ErrNotApplied)
		b.open()
		time.Sleep(2 * time.Second)
		require.Empty(b, b.store.state("k"))
	})
}
