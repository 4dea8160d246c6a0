package storage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// gated is a store whose round trips wait at a gate, and are noted.
type gated struct {
	*scripted
	gate  chan struct{} // a value lets one pass, closed lets all
	mu    sync.Mutex
	trips []string // the keys of each, groups set apart by |

	refuse func(keys []string) error // before a group is tried
	lose   func(keys []string) error // after it was
}

func newGated() *gated { return &gated{scripted: newScripted(), gate: make(chan struct{})} }

func (g *gated) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	o := g.CompareAndSwapBatch(ctx, swaps)[0]
	return o.Current, o.Swapped, o.Err
}

func (g *gated) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	outcomes := make([]storage.Outcome, len(groups))
	var names []string
	for _, swaps := range groups {
		names = append(names, strings.Join(keysOf(swaps), " "))
	}
	g.mu.Lock()
	g.trips = append(g.trips, strings.Join(names, "|"))
	g.mu.Unlock()
	select {
	case <-g.gate:
	case <-ctx.Done():
		for i := range outcomes {
			outcomes[i].Err = fmt.Errorf("hanging: %w", ctx.Err())
		}
		return outcomes
	}
	for i, swaps := range groups {
		outcomes[i] = g.try(ctx, swaps)
	}
	return outcomes
}

func (g *gated) try(ctx context.Context, swaps []storage.Swap) (o storage.Outcome) {
	keys := keysOf(swaps)
	if g.refuse != nil {
		if o.Err = g.refuse(keys); o.Err != nil {
			return o
		}
	}
	o.Current, o.Swapped, o.Err = g.scripted.CompareAndSwap(ctx, swaps...)
	if g.lose != nil {
		if err := g.lose(keys); err != nil {
			return storage.Outcome{Err: err}
		}
	}
	return o
}

// refuseFar has the key far never be stored, for the reason that it returns.
func (g *gated) refuseFar() error {
	far := storage.NotApplied(errors.New("keys of two servers"))
	g.refuse = func(keys []string) error {
		if slices.Contains(keys, "far") {
			return far
		}
		return nil
	}
	return far
}

func keysOf(swaps []storage.Swap) (keys []string) {
	for _, s := range swaps {
		keys = append(keys, s.Key)
	}
	return keys
}

// one of those who call at once.
type caller struct {
	count
	how storage.How
	err error
}

// crowd starts callers one after the other, each once those before it wait.
type crowd struct {
	engine *storage.Engine
	limit  int
	group  sync.WaitGroup
}

func (c *crowd) call(ctx context.Context, keys ...string) *caller {
	k := &caller{count: count{limit: c.limit}}
	c.start(func() { k.how, k.err = c.engine.Do(ctx, keys, k.decide) })
	return k
}

func (c *crowd) start(f func()) {
	c.group.Go(f)
	synctest.Wait()
}

func inBubble(t *testing.T, o storage.EngineOptions, test func(s *gated, c *crowd)) {
	synctest.Test(t, func(t *testing.T) {
		s := newGated()
		e := storage.NewEngine(s, o)
		c := &crowd{engine: e, limit: 1000}
		test(s, c)
		c.group.Wait()
		time.Sleep(time.Second) // of the bubble: a group that everybody left may rest yet
		synctest.Wait()
		require.True(t, e.Idle(), "somebody was forgotten")
	})
}

var background = context.Background()

func TestCallersThatMeetShareAWrite(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.limit = 5
		var callers []*caller
		for range 8 {
			callers = append(callers, c.call(background, "k"))
		}
		close(s.gate)
		c.group.Wait()
		for i, k := range callers {
			require.NoError(t, k.err)
			require.Equal(t, i < 5, k.allowed, "first come, first served: caller %d", i)
		}
		require.Equal(t, []string{"k", "k"}, s.trips)
		require.Equal(t, "xxxxx", string(s.records["k"].State))
	})
}

func TestApartCallersWaitForNobody(t *testing.T) {
	inBubble(t, storage.EngineOptions{NoSharing: true}, func(s *gated, c *crowd) {
		for _, key := range []string{"a", "b", "c", "d"} {
			c.call(background, key)
		}
		require.Equal(t, []string{"a", "b", "c", "d"}, s.trips)
		close(s.gate)
	})
}

func TestWritesThatAreReadyTogetherShareARoundTrip(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		for _, key := range []string{"a", "b", "c", "d", "c", "e"} {
			c.call(background, key)
		}
		require.Equal(t, []string{"a", "b"}, s.trips, "two round trips may be under way")
		s.gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"a", "b", "c|d|e"}, s.trips)
		close(s.gate)
		c.group.Wait()
		require.Equal(t, "xx", string(s.records["c"].State))
	})
}

func TestKeysConnectedByACallAreWrittenTogether(t *testing.T) {
	inBubble(t, storage.EngineOptions{InFlight: 1}, func(s *gated, c *crowd) {
		c.call(background, "first")
		c.call(background, "a")
		c.call(background, "b")
		c.call(background, "c")
		c.call(background, "b", "all")
		c.call(background, "all", "a")
		close(s.gate)
		c.group.Wait()
		require.Equal(t, []string{"first", "b all a|c"}, s.trips)
		require.Equal(t, "xx", string(s.records["a"].State))
		require.Equal(t, "xx", string(s.records["b"].State))
		require.Equal(t, "xx", string(s.records["all"].State))
	})
}

func TestNobodyOvertakesACallOnItsKeys(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.limit = 1
		c.call(background, "z")
		c.call(background, "a")
		both := c.call(background, "a", "b")
		late := c.call(background, "b")
		s.gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"z", "a"}, s.trips, "b is waited for, so that the last call waits as well")
		close(s.gate)
		c.group.Wait()
		require.False(t, both.allowed)
		require.True(t, late.allowed)
	})
}

func TestACallerThatLeavesBeforeTheFoldHasNotPaid(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.call(background, "k")
		ctx, cancel := context.WithCancel(background)
		gone := c.call(ctx, "k")
		c.call(background, "k")
		cancel()
		synctest.Wait()
		require.ErrorIs(t, gone.err, context.Canceled)
		require.ErrorIs(t, gone.err, storage.ErrNotApplied)
		close(s.gate)
		c.group.Wait()
		require.Equal(t, "xx", string(s.records["k"].State))
	})
}

func TestACallerThatLeavesAfterTheFoldMayHavePaid(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.call(background, "k")
		ctx, cancel := context.WithCancel(background)
		gone := c.call(ctx, "k")
		stays := c.call(background, "k")
		s.gate <- struct{}{}
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.ErrorIs(t, gone.err, storage.ErrOutcomeUnknown)
		require.ErrorIs(t, gone.err, context.Canceled)
		require.NotErrorIs(t, gone.err, storage.ErrNotApplied)
		close(s.gate)
		c.group.Wait()
		require.NoError(t, stays.err)
		require.Equal(t, "xxx", string(s.records["k"].State))
	})
}

func TestAFirstCallerThatLeavesTakesNobodyAlong(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		ctx, cancel := context.WithCancel(background)
		gone := c.call(ctx, "k")
		stays := c.call(background, "k")
		cancel()
		synctest.Wait()
		require.ErrorIs(t, gone.err, storage.ErrOutcomeUnknown)
		close(s.gate)
		c.group.Wait()
		require.NoError(t, stays.err)
		require.True(t, stays.allowed)
	})
}

func TestAPanicIsThatOfItsCallerAlone(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.call(background, "k")
		var seen any
		times := 0
		c.start(func() {
			defer func() { seen = recover() }()
			c.engine.Do(background, []string{"k"}, func(time.Time, [][]byte, []storage.Change) (bool, error) {
				if times++; times > 1 {
					panic("at the disco")
				}
				return false, nil
			})
		})
		after := c.call(background, "k")
		close(s.gate)
		c.group.Wait()
		require.Equal(t, "at the disco", seen)
		require.NoError(t, after.err)
		require.Equal(t, "xx", string(s.records["k"].State))
	})
}

func TestAnErrorIsThatOfItsCallerAlone(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.call(background, "k")
		own := errors.New("own")
		var seen error
		c.start(func() {
			_, seen = c.engine.Do(background, []string{"k"}, func(_ time.Time, found [][]byte, next []storage.Change) (bool, error) {
				if next[0] = (storage.Change{Verb: storage.Put}); found[0] == nil {
					return false, nil
				}
				return false, own
			})
		})
		after := c.call(background, "k")
		close(s.gate)
		c.group.Wait()
		require.Equal(t, own, seen)
		require.NoError(t, after.err)
		require.Equal(t, "xx", string(s.records["k"].State))
	})
}

func TestTooManyAreToldSo(t *testing.T) {
	inBubble(t, storage.EngineOptions{Queue: 2}, func(s *gated, c *crowd) {
		for range 3 {
			c.call(background, "k")
		}
		surplus := c.call(background, "k")
		require.ErrorIs(t, surplus.err, storage.ErrOverloaded)
		require.ErrorIs(t, surplus.err, storage.ErrUnavailable)
		require.ErrorIs(t, surplus.err, storage.ErrNotApplied)
		close(s.gate)
	})
}

// A decision that nothing is in the way of does not wait: nor for one that nobody waits for.
func TestACallerThatLeavesIsInNobodysWay(t *testing.T) {
	for name, first := range map[string]bool{"left before": true, "left after": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
				c.call(background, "hot")
				ctx, leave := context.WithCancel(background)
				c.call(ctx, "hot", "x")
				if first {
					leave()
					synctest.Wait()
				}
				c.call(background, "x")
				leave()
				synctest.Wait()
				require.Equal(t, []string{"hot", "x"}, s.trips)
				close(s.gate)
			})
		})
	}
}

func TestThoseWhoLeftAreNotKept(t *testing.T) {
	inBubble(t, storage.EngineOptions{Queue: 2}, func(s *gated, c *crowd) {
		c.call(background, "k")
		for range 10_000 {
			ctx, leave := context.WithCancel(background)
			c.call(ctx, "k")
			leave()
			synctest.Wait()
			require.Zero(t, c.engine.Waiting())
		}
		stays := c.call(background, "k")
		close(s.gate)
		c.group.Wait()
		require.NoError(t, stays.err)
		require.Equal(t, "xx", string(s.records["k"].State))
	})
}

func TestTheErrorOfOneWhoLeftIsToldToNobody(t *testing.T) {
	inBubble(t, storage.EngineOptions{InFlight: 1}, func(s *gated, c *crowd) {
		s.refuseFar()
		c.call(background, "k")
		ctx, leave := context.WithCancel(background)
		c.call(ctx, "k", "far")
		stays := c.call(background, "k")
		s.gate <- struct{}{}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(s.gate)
		c.group.Wait()
		require.NoError(t, stays.err)
		require.Equal(t, []string{"k", "k far", "k"}, s.trips, "who left is not tried apart")
	})
}

func TestOneThatCannotBeStoredHarmsNoOther(t *testing.T) {
	inBubble(t, storage.EngineOptions{InFlight: 1}, func(s *gated, c *crowd) {
		apart := s.refuseFar()
		c.call(background, "first")
		before := c.call(background, "k")
		bad := c.call(background, "k", "far")
		after := c.call(background, "k")
		close(s.gate)
		c.group.Wait()
		require.NoError(t, before.err)
		require.ErrorIs(t, bad.err, apart)
		require.NoError(t, after.err)
		require.Equal(t, "xx", string(s.records["k"].State))
	})
}

func TestALostReplyIsLookedForAndHoldsUpNoOther(t *testing.T) {
	inBubble(t, storage.EngineOptions{InFlight: 1}, func(s *gated, c *crowd) {
		losses := 3
		s.lose = func(keys []string) error {
			if keys[0] == "lossy" && losses > 0 {
				losses--
				return errLost
			}
			return nil
		}
		c.call(background, "first")
		a, b := c.call(background, "lossy"), c.call(background, "lossy")
		other := c.call(background, "other")
		s.gate <- struct{}{}
		s.gate <- struct{}{}
		synctest.Wait()
		require.True(t, other.allowed)
		require.Zero(t, a.err)
		close(s.gate)
		c.group.Wait()
		require.NoError(t, a.err)
		require.NoError(t, b.err)
		require.Equal(t, "xx", string(s.records["lossy"].State), "written once")
	})
}

func TestThoseWhoComeWhileASwapIsLostToOthersJoinTheNext(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		first := c.call(background, "k")
		second := c.call(background, "k")
		s.put("k", "xx") // by another process
		s.gate <- struct{}{}
		synctest.Wait()
		close(s.gate)
		c.group.Wait()
		require.Equal(t, []string{"k", "k"}, s.trips)
		require.Equal(t, 2, first.how.Attempts)
		require.NoError(t, second.err)
		require.Equal(t, "xxxx", string(s.records["k"].State))
	})
}

func TestALookInACrowdLooks(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.call(background, "k")
		seen := ""
		look := func(_ time.Time, found [][]byte, _ []storage.Change) (bool, error) {
			seen = string(found[0])
			return false, nil
		}
		c.start(func() { c.engine.Do(background, []string{"k"}, look) })
		close(s.gate)
		c.group.Wait()
		require.Equal(t, "x", seen)
		s.put("k", "by another")
		_, err := c.engine.Do(background, []string{"k"}, look)
		require.NoError(t, err)
		require.Equal(t, "by another", seen)
	})
}

func TestWhatWasReadForSomeIsNotFreshForOthers(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.call(background, "j")
		s.gate <- struct{}{}
		c.group.Wait()
		c.call(background, "k")
		seen := ""
		c.start(func() {
			c.engine.Do(background, []string{"k", "j"}, func(_ time.Time, found [][]byte, _ []storage.Change) (bool, error) {
				seen = string(found[1])
				return false, nil
			})
		})
		s.put("k", "taken")
		s.put("j", "by another")
		close(s.gate)
		c.group.Wait()
		require.Equal(t, "by another", seen)
	})
}

func TestAConflictShowsOnlyTheKeysOfItsSwaps(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		back := tally{add: -1, limit: 9}
		c.start(func() { c.engine.Do(background, []string{"k", "j"}, back.decide) })
		require.Empty(t, s.trips, "nothing to give back")
		s.put("k", "xx")
		c.start(func() { c.engine.Do(background, []string{"k", "j"}, back.decide) })
		s.put("k", "xxxx") // after it was read, like j
		s.put("j", "xxxx")
		close(s.gate)
		c.group.Wait()
		require.Len(t, s.records["k"].State, 3)
		require.Len(t, s.records["j"].State, 3)
	})
}

func TestEveryAttemptOfACrowdReadsTheClockOnce(t *testing.T) {
	readings := 0
	clock := func() time.Time { readings++; return time.Unix(int64(readings), 0) }
	inBubble(t, storage.EngineOptions{Clock: clock}, func(s *gated, c *crowd) {
		down := true
		s.refuse = func([]string) (err error) {
			if down {
				err = storage.NotApplied(storage.ErrUnavailable)
			}
			down = false
			return err
		}
		a, b := c.call(background, "k"), c.call(background, "k")
		before := readings
		close(s.gate)
		c.group.Wait()
		require.Equal(t, before+1, readings)
		require.Len(t, a.times, 2)
		require.Equal(t, a.times[1], b.times[len(b.times)-1])
	})
}

// A caller whose time ends with its flight is told what became of that.
func TestAFlightThatEndsWithTheTimeIsHeardOut(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.call(background, "k")
		second := c.call(background, "k")
		s.refuse = func([]string) error {
			time.Sleep(storage.DefaultBudget)
			return storage.NotApplied(storage.ErrUnavailable)
		}
		close(s.gate)
		c.group.Wait()
		require.ErrorIs(t, second.err, storage.ErrNotApplied)
	})
}

// While a flight hangs, each of those who wait is told when its own time is over.
func TestNobodyWaitsBeyondItsTime(t *testing.T) {
	for _, o := range []storage.EngineOptions{{}, {NoCombining: true}, {NoSharing: true}, {InFlight: 1}} {
		o.Budget = time.Second
		inBubble(t, o, func(s *gated, c *crowd) {
			for i := range 20 {
				began := time.Now()
				c.group.Go(func() {
					k := &count{limit: 1000}
					_, err := c.engine.Do(background, []string{fmt.Sprint("k", i%3)}, k.decide)
					require.Error(t, err)
					require.LessOrEqual(t, time.Since(began), time.Second)
				})
				synctest.Wait()
				time.Sleep(77 * time.Millisecond)
			}
			c.group.Wait()
			close(s.gate)
			k := c.call(background, "k0")
			c.group.Wait()
			require.NoError(t, k.err, "it recovers by itself")
		})
	}
}
