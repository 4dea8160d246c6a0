package storage_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// arrival is a caller who notes what it was decided on.
type arrival struct {
	keys  []string
	found []int // of each key, how many decisions it had seen
	err   error
}

func (a *arrival) decide(_ time.Time, found [][]byte, next []storage.Change) (bool, error) {
	a.found = a.found[:0]
	for i := range found {
		a.found = append(a.found, len(found[i]))
		next[i] = storage.Change{Verb: storage.Put, State: append([]byte("x"), found[i]...)}
	}
	return false, nil
}

// Whatever the others want, how many round trips there are, who leaves, what cannot be
// stored and who else writes.
func TestEachKeyIsDecidedInTheOrderOfArrival(t *testing.T) {
	const keys, most, callers = 6, 3, 60
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		o := storage.EngineOptions{InFlight: 1 + random.IntN(3), Budget: time.Hour}
		switch random.IntN(4) {
		case 0:
			o.NoCombining = true
		case 1:
			o.NoSharing = true
		}
		inBubble(t, o, func(s *gated, c *crowd) {
			s.refuse = func(keys []string) error {
				if slices.Contains(keys, "0") && len(keys) > most { // they are tried apart
					return storage.NotApplied(errors.New("too far apart"))
				}
				return nil
			}
			var arrivals []*arrival
			for range callers {
				a := new(arrival)
				for _, key := range random.Perm(keys)[:1+random.IntN(most)] {
					a.keys = append(a.keys, fmt.Sprint(key))
				}
				arrivals = append(arrivals, a)
				ctx, leave := context.WithCancel(background)
				defer leave()
				c.start(func() { _, a.err = c.engine.Do(ctx, a.keys, a.decide) })
				switch random.IntN(8) {
				case 0:
					leave()
				case 1:
					select {
					case s.gate <- struct{}{}:
					default: // they rest
					}
				case 2:
					s.meddle(a.keys[0])
				}
				synctest.Wait()
			}
			close(s.gate)
			c.group.Wait()

			last := map[string]int{}
			for i, a := range arrivals {
				if a.err != nil {
					continue
				}
				for j, key := range a.keys {
					before, some := last[key]
					require.True(t, !some || before < a.found[j], "seed %d: caller %d found %d on %s, one before it %d", seed, i, a.found[j], key, before)
					last[key] = a.found[j]
				}
			}
			require.Len(t, last, keys)
		})
	}
}

// meddle is another process that writes a key.
func (g *gated) meddle(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.records[key] = storage.Record{Version: storage.NewVersion(), State: append([]byte("x"), g.records[key].State...)}
}

func TestNotCombinedEachIsAWriteOfItsOwn(t *testing.T) {
	inBubble(t, storage.EngineOptions{NoCombining: true}, func(s *gated, c *crowd) {
		for _, key := range []string{"k", "k", "other", "k"} {
			c.call(background, key)
		}
		close(s.gate)
		c.group.Wait()
		require.Equal(t, []string{"k", "other", "k", "k"}, s.trips)
	})
}

// Those of a write that cannot be stored are tried one by one, and nobody joins them until
// they are through.
func TestThoseWhoAreTriedApartAreAlone(t *testing.T) {
	inBubble(t, storage.EngineOptions{InFlight: 1}, func(s *gated, c *crowd) {
		far := s.refuseFar()
		c.call(background, "first")
		c.call(background, "k")
		bad := c.call(background, "k", "far")
		for range 2 {
			c.call(background, "k")
		}
		s.gate <- struct{}{}
		synctest.Wait()
		c.call(background, "k", "late")
		for range 2 {
			c.call(background, "k")
		}
		close(s.gate)
		c.group.Wait()
		require.ErrorIs(t, bad.err, far)
		require.Equal(t, []string{"first", "k far", "k", "k far", "k", "k", "k late"}, s.trips)
	})
}

// most is how many calls on a key were stored in one round trip, at most.
func (g *gated) most(key string) *int {
	before, most := 0, new(int)
	g.after = func(int) error {
		now := len(g.records[key].State)
		before, *most = now, max(*most, now-before)
		return nil
	}
	return most
}

func TestAWriteIsOfSoManyCallsAtMost(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		most := s.most("k")
		c.call(background, "k")
		for range 3000 {
			c.group.Go(func() { _, _ = c.engine.Do(background, []string{"k"}, new(arrival).decide) })
		}
		synctest.Wait()
		close(s.gate)
		c.group.Wait()
		require.Len(t, s.records["k"].State, 3001)
		require.Equal(t, 1024, *most)
		require.Len(t, s.trips, 4)
	})
}

// loses has a crowd meet on a key, and others write it while a part of the crowd is on its way.
func (c *crowd) loses(s *gated, crowd int, key string) {
	c.call(background, key)
	for range crowd {
		c.group.Go(func() { _, _ = c.engine.Do(background, []string{key}, new(arrival).decide) })
	}
	synctest.Wait()
	s.gate <- struct{}{}
	synctest.Wait()
	s.meddle(key)
}

// A crowd that loses to others takes nobody along that it does not have, and no seats from
// those who want something else.
func TestACrowdThatLosesLeavesSeats(t *testing.T) {
	inBubble(t, storage.EngineOptions{InFlight: 1}, func(s *gated, c *crowd) {
		c.loses(s, 2000, "k")
		c.call(background, "other")
		s.gate <- struct{}{} // the crowd loses
		synctest.Wait()
		require.Equal(t, []string{"k", "k", "k|other"}, s.trips)
		close(s.gate)
	})
}

func TestAFewKeysNeedNotTakeTurns(t *testing.T) {
	inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
		c.call(background, "a")
		c.call(background, "b")
		for i := range 10 {
			c.call(background, fmt.Sprint(i))
		}
		s.gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"a", "b", "0|1|2|3|4|5|6|7|8|9"}, s.trips)
		close(s.gate)
	})
}

func TestAFlightIsUntilTheLastOfItsCallsIsOverdue(t *testing.T) {
	inBubble(t, storage.EngineOptions{Budget: time.Second}, func(s *gated, c *crowd) {
		c.call(background, "k")
		early := c.call(background, "k")
		time.Sleep(500 * time.Millisecond)
		late := c.call(background, "k")
		s.gate <- struct{}{}
		time.Sleep(700 * time.Millisecond) // the early one is told
		synctest.Wait()
		require.ErrorIs(t, early.err, storage.ErrOutcomeUnknown)
		close(s.gate)
		c.group.Wait()
		require.NoError(t, late.err)
	})
}

func TestWhereNobodyWaitsNoSeatsAreLeft(t *testing.T) {
	inBubble(t, storage.EngineOptions{InFlight: 1}, func(s *gated, c *crowd) {
		c.call(background, "first")
		for i := range 12 {
			c.call(background, fmt.Sprint(i))
			s.meddle(fmt.Sprint(i))
		}
		s.gate <- struct{}{}
		synctest.Wait()
		s.gate <- struct{}{} // all lose
		synctest.Wait()
		require.Len(t, s.trips, 3)
		require.Equal(t, s.trips[1], s.trips[2], "nobody else wants to fly")
		close(s.gate)
	})
}

func TestACrowdThatLosesStaysWithinAWrite(t *testing.T) {
	inBubble(t, storage.EngineOptions{InFlight: 1}, func(s *gated, c *crowd) {
		most := s.most("k")
		c.loses(s, 2000, "k")
		close(s.gate)
		c.group.Wait()
		require.LessOrEqual(t, *most, 1025, "of which one is another's")
	})
}

func TestTroubleThatIsOverIsToldToNobody(t *testing.T) {
	for name, up := range map[string]func(*gated, *crowd){
		"the same decision was stored": func(s *gated, c *crowd) {
			time.Sleep(100 * time.Millisecond)
			s.gate <- struct{}{}
			c.group.Wait()
		},
		"another decision was stored": func(s *gated, c *crowd) {
			c.call(background, "another")
			s.gate <- struct{}{}
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, storage.EngineOptions{InFlight: 1, Budget: time.Second}, func(s *gated, c *crowd) {
				down := true
				s.refuse = func([]string) (err error) {
					if down {
						err = storage.NotApplied(fmt.Errorf("%w: down", storage.ErrUnavailable))
					}
					down = false
					return err
				}
				c.call(background, "k")
				s.gate <- struct{}{} // down
				synctest.Wait()
				up(s, c)
				c.call(background, "busy")
				ctx, leave := context.WithCancel(background)
				waits := c.call(ctx, "other")
				leave()
				synctest.Wait()
				require.ErrorIs(t, waits.err, context.Canceled)
				require.NotErrorIs(t, waits.err, storage.ErrUnavailable)
				close(s.gate)
			})
		})
	}
}

func TestWhatMayHaveBeenWrittenIsForgotten(t *testing.T) {
	for name, reply := range map[string]error{"lost": errLost, "torn": storage.ErrTorn} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, storage.EngineOptions{Budget: 100 * time.Millisecond}, func(s *gated, c *crowd) {
				close(s.gate)
				c.call(background, "k")
				_, seen := c.engine.Glance([]byte("k"), time.Now())
				require.True(t, seen)
				s.lose = func([]string) error { return reply }
				k := c.call(background, "k")
				c.group.Wait()
				require.ErrorIs(t, k.err, storage.ErrOutcomeUnknown)
				_, seen = c.engine.Glance([]byte("k"), time.Now())
				require.False(t, seen)
			})
		})
	}
}

func TestWhoWaitsForAnyKeyOfAGroupComesAlong(t *testing.T) {
	inBubble(t, storage.EngineOptions{InFlight: 1}, func(s *gated, c *crowd) {
		c.call(background, "first")
		c.call(background, "a", "b", "c")
		for _, key := range []string{"a", "b", "c"} {
			c.call(background, key)
		}
		s.gate <- struct{}{}
		synctest.Wait()
		close(s.gate)
		c.group.Wait()
		require.Equal(t, []string{"first", "a b c"}, s.trips)
	})
}

// msec takes a millisecond for each round trip.
type msec struct{ *scripted }

func (s msec) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	time.Sleep(time.Millisecond)
	return s.scripted.CompareAndSwap(ctx, swaps...)
}

func (s msec) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) (outcomes []storage.Outcome) {
	time.Sleep(time.Millisecond)
	for _, swaps := range groups {
		current, swapped, err := s.scripted.CompareAndSwap(ctx, swaps...)
		outcomes = append(outcomes, storage.Outcome{Current: current, Swapped: swapped, Err: err})
	}
	return outcomes
}

// Of two keys that crowds ask for again and again, neither takes the seats of the other.
func TestCrowdsShareTheSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := storage.NewEngine(msec{newScripted()}, storage.EngineOptions{InFlight: 1, Budget: 50 * time.Millisecond})
		put := func(_ time.Time, _ [][]byte, next []storage.Change) (bool, error) {
			next[0] = storage.Change{Verb: storage.Put, State: []byte("x")}
			return false, nil
		}
		var served, failed [2]atomic.Int64
		end := time.Now().Add(200 * time.Millisecond)
		for i := range 4000 {
			go func() {
				for key := i % 2; time.Now().Before(end); {
					if _, err := e.Do(background, []string{string("ab"[key])}, put); err != nil {
						failed[key].Add(1)
					} else {
						served[key].Add(1)
					}
				}
			}()
		}
		time.Sleep(time.Second)
		a, b := served[0].Load(), served[1].Load()
		t.Log("served", a, b, "failed", failed[0].Load(), failed[1].Load())
		require.InEpsilon(t, a, b, 0.1)
	})
}

// stuck does not answer for one key.
type stuck struct{ storage.Store }

func (s stuck) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if swaps[0].Key == "hangs" {
		<-ctx.Done()
		return nil, false, ctx.Err()
	}
	return s.Store.CompareAndSwap(ctx, swaps...)
}

// How many wait for a key is nothing to those who want others.
func BenchmarkBesideThoseWhoWait(b *testing.B) {
	put := func(_ time.Time, _ [][]byte, next []storage.Change) (bool, error) {
		next[0] = storage.Change{Verb: storage.Put, State: []byte("x")}
		return false, nil
	}
	for _, many := range []int{1, 60_000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			e := storage.NewEngine(stuck{new(memory.Store)}, storage.EngineOptions{Budget: time.Minute})
			ctx, leave := context.WithCancel(background)
			defer leave()
			for range many {
				go func() { _, _ = e.Do(ctx, []string{"hangs"}, put) }()
			}
			for e.Waiting() < many-1 {
				runtime.Gosched()
			}
			b.SetParallelism(4)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if _, err := e.Do(background, []string{strconv.Itoa(i % 3)}, put); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
