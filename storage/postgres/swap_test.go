package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

func TestSwapWithAFaultIsAllOrNothing(t *testing.T) {
	p := newPool(t, shared.Postgres(t).DSN())
	direct, table := newStore(t, p)
	for _, kind := range faultproxy.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			through, proxy := newCountedPool(t, "")
			s, err := postgres.New(through, postgres.Options{Table: table})
			require.NoError(t, err)
			t.Cleanup(proxy.Disconnect)
			proxy.Only(func(request []byte) bool {
				return bytes.Contains(request, []byte(table)) || bytes.Contains(request, []byte("stmtcache"))
			})
			countSwap(t, proxy, s, creating("warm "+kind.String())...)

			proxy.Plan(faultproxy.Fault{At: 1, Kind: kind})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if kind.Hangs() {
				go func() {
					for ctx.Err() == nil && proxy.Exchanges() == 0 {
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
			require.Eventually(t, func() bool { proxy.Release(); return proxy.Hits() == 1 }, 20*time.Second, time.Millisecond)
			records, _, err := direct.Load(t.Context(), keysOf(swaps)...)
			require.NoError(t, err)
			require.Equal(t, records[0].Version != 0, records[1].Version != 0, "all or nothing")
			if !kind.Hangs() || !kind.Applied() { // otherwise pgx may have cancelled the statement
				require.Equal(t, kind.Applied(), records[0].Version != 0)
			}
		})
	}
}

// Another transaction creates a key at the same time. That is a conflict, and nothing is written.
func TestKeyCreatedMeanwhileIsAConflict(t *testing.T) {
	for name, keys := range map[string][]string{"one key": {"x"}, "several keys": {"a", "x", "z"}} {
		for _, transactional := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", in a transaction: ", transactional), func(t *testing.T) {
				p := newPool(t, shared.Postgres(t).DSN())
				s, table := newStore(t, p)
				if transactional {
					s = storeIn(t, begin(t, p), table)
				}
				winner := begin(t, p)
				_, swapped, err := storeIn(t, winner, table).CompareAndSwap(t.Context(), creating("x")...)
				require.NoError(t, err)
				require.True(t, swapped)
				raced := swapLater(s, creating(keys...))
				waitForLocks(t, p, table, 1)
				require.NoError(t, winner.Commit(t.Context()))
				got := <-raced
				require.NoError(t, got.err)
				require.False(t, got.swapped)
				records, _, err := s.Load(t.Context(), keys...)
				require.NoError(t, err)
				require.Equal(t, records, got.current)
				for i, key := range keys {
					require.Equal(t, key == "x", records[i].Version != 0, key)
				}
				_, swapped, err = s.CompareAndSwap(t.Context(), creating("d")...)
				require.NoError(t, err, "a transaction stays usable")
				require.True(t, swapped)
			})
		}
	}
}

func keysOf(swaps []storage.Swap) (keys []string) {
	for _, s := range swaps {
		keys = append(keys, s.Key)
	}
	return keys
}
