package storage_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// With one of 46, the other would leave with nobody but those who come meanwhile.
func TestRoundTripsTakeTheirShareOfWhatWaits(t *testing.T) {
	for _, keys := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(keys, " keys each"), func(t *testing.T) {
			inBubble(t, storage.EngineOptions{}, func(s *gated, c *crowd) {
				for i := range 48 {
					var names []string
					for j := range keys {
						names = append(names, fmt.Sprint(i, "-", j))
					}
					c.call(background, names...)
				}
				c.call(background, "2-0")
				s.gate <- struct{}{}
				synctest.Wait()
				s.gate <- struct{}{}
				synctest.Wait()
				sizes := []int{}
				for _, trip := range s.trips {
					sizes = append(sizes, strings.Count(trip, "|")+1)
				}
				require.Equal(t, []int{1, 1, 24, 22}, sizes)
				close(s.gate)
				c.group.Wait()
				require.Equal(t, "xx", string(s.records["2-0"].State), "a caller more of a key is no key more")
			})
		})
	}
}

// rivaled is a store where others always were first on the keys of the rivals, and on
// which a round trip with a key that hangs does not come back in time.
type rivaled struct{ *scripted }

func (s *rivaled) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	o := s.CompareAndSwapBatch(ctx, swaps)[0]
	return o.Current, o.Swapped, o.Err
}

func (s *rivaled) CompareAndSwapBatch(ctx context.Context, groups ...[]storage.Swap) []storage.Outcome {
	outcomes := make([]storage.Outcome, len(groups))
	for i, swaps := range groups {
		o := &outcomes[i]
		switch key := swaps[0].Key; {
		case strings.HasPrefix(key, "hangs"):
			<-ctx.Done()
			o.Err = storage.NotApplied(storage.ErrUnavailable)
		case strings.HasPrefix(key, "rival"):
			o.Current = []storage.Record{{Version: storage.NewVersion(), State: []byte("x")}}
		default:
			o.Current, o.Swapped, o.Err = s.scripted.CompareAndSwap(ctx, swaps...)
		}
	}
	time.Sleep(10 * time.Millisecond) // of the bubble
	return outcomes
}

// Those who lose again and again, on all the round trips that are left, leave room for
// others.
func TestLosersKeepNobodyWaiting(t *testing.T) {
	for _, inFlight := range []int{1, 2, 8} {
		for _, rivals := range []int{40, 120, 400} {
			synctest.Test(t, func(t *testing.T) {
				e := storage.NewEngine(&rivaled{newScripted()}, storage.EngineOptions{InFlight: inFlight})
				var all sync.WaitGroup
				call := func(ctx context.Context, key string) {
					all.Go(func() { _, _ = e.Do(ctx, []string{key}, (&count{limit: 9}).decide) })
					synctest.Wait()
				}
				for i := range inFlight - 1 {
					call(background, fmt.Sprint("hangs ", i))
				}
				ctx, leave := context.WithCancel(background)
				for i := range rivals {
					call(ctx, fmt.Sprint("rival ", i))
				}
				time.Sleep(100 * time.Millisecond)
				began := time.Now()
				_, err := e.Do(background, []string{"k"}, (&count{limit: 9}).decide)
				require.NoError(t, err)
				require.Less(t, time.Since(began), 300*time.Millisecond, "%d in flight, %d rivals", inFlight, rivals)
				leave()
				all.Wait()
				time.Sleep(time.Second)
				synctest.Wait()
				require.True(t, e.Idle())
			})
		}
	}
}
