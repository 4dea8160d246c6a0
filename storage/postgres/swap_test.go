package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

// A swap of two keys meets a fault at its statement. The answer is no lie about what is stored.
func TestASwapMeetsAFault(t *testing.T) {
	p := pool(t, shared.Postgres(t).DSN())
	truth, table := fresh(t, p)
	for _, kind := range faultproxy.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			through, proxy := counting(t, "")
			s, err := postgres.New(through, postgres.Options{Table: table})
			require.NoError(t, err)
			t.Cleanup(proxy.Refuse)
			proxy.Only(func(request []byte) bool {
				return bytes.Contains(request, []byte(table)) || bytes.Contains(request, []byte("stmtcache"))
			})
			try(t, proxy, s, creating("warm "+kind.String())...)

			proxy.Plan(faultproxy.Fault{At: 1, Kind: kind})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if kind.Hangs() {
				go func() {
					for ctx.Err() == nil && proxy.Seen() == 0 {
						time.Sleep(time.Millisecond)
					}
					cancel()
				}()
			}
			swaps := creating(kind.String()+" b", kind.String()+" a")
			current, swapped, err := s.CompareAndSwap(ctx, swaps...)
			require.ErrorIs(t, err, storage.ErrUnavailable)
			require.NotErrorIs(t, err, storage.ErrNotApplied)
			require.Nil(t, current)
			require.False(t, swapped)
			require.Eventually(t, func() bool { proxy.Release(); return len(proxy.Hits()) == 1 }, 20*time.Second, time.Millisecond)
			records, err := truth.Load(t.Context(), keysOf(swaps)...)
			require.NoError(t, err)
			require.Equal(t, records[0].Version != 0, records[1].Version != 0, "torn")
			if !kind.Hangs() || !kind.Applied() { // else pgx may have had the server cancel it
				require.Equal(t, kind.Applied(), records[0].Version != 0)
			}
		})
	}
}

// A key is created by another at the same moment. That is a conflict, and nothing is written.
func TestASwapIsRaced(t *testing.T) {
	for name, keys := range map[string][]string{"one key": {"x"}, "several keys": {"a", "x", "z"}} {
		t.Run(name, func(t *testing.T) {
			p := pool(t, shared.Postgres(t).DSN())
			s, table := fresh(t, p)
			winner := transaction(t, p)
			_, swapped, err := inside(t, winner, table).CompareAndSwap(t.Context(), creating("x")...)
			require.NoError(t, err)
			require.True(t, swapped)
			raced := later(s, creating(keys...))
			waiting(t, p, table, 1)
			require.NoError(t, winner.Commit(t.Context()))
			got := <-raced
			require.NoError(t, got.err)
			require.False(t, got.swapped)
			records, err := s.Load(t.Context(), keys...)
			require.NoError(t, err)
			require.Equal(t, records, got.current)
			for i, key := range keys {
				require.Equal(t, key == "x", records[i].Version != 0, key)
			}
		})
	}
}

func keysOf(swaps []storage.Swap) (keys []string) {
	for _, s := range swaps {
		keys = append(keys, s.Key)
	}
	return keys
}

// Swaps of the same keys come in any order from many sides: first all create
// them, then all replace what they have seen. No ring of waits forms, which
// Postgres would break with an error after a second.
func TestSwapsDoNotDeadlock(t *testing.T) {
	const writers, rounds, keys = 8, 8, 48
	s, _ := fresh(t, pool(t, shared.Postgres(t).DSN()+"&pool_max_conns=8"))
	for round := range rounds {
		var errs [writers]error
		var group sync.WaitGroup
		start := make(chan struct{})
		for w := range writers {
			random := rand.New(rand.NewPCG(uint64(w), uint64(round)))
			group.Go(func() {
				<-start
				seen := map[string]storage.Version{}
				for range 3 {
					errs[w] = errors.Join(errs[w], swapSome(s, seen, fmt.Sprint(round, "/"), random.Perm(keys)[:keys/2]))
				}
			})
		}
		close(start)
		group.Wait()
		require.NoError(t, errors.Join(errs[:]...))
	}
}

// swapSome swaps numbered keys, and learns what is there.
func swapSome(s *postgres.Store, seen map[string]storage.Version, prefix string, numbers []int) error {
	var names []string
	for _, n := range numbers {
		names = append(names, fmt.Sprint(prefix, n))
	}
	swaps := creating(names...)
	for i := range swaps {
		swaps[i].Old = seen[swaps[i].Key]
	}
	current, swapped, err := s.CompareAndSwap(context.Background(), swaps...)
	for i, swap := range swaps {
		if swapped {
			seen[swap.Key] = swap.New.Version
		} else if err == nil {
			seen[swap.Key] = current[i].Version
		}
	}
	return err
}
