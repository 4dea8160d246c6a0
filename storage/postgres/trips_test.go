package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

// counting is a pool of one connection, made already, behind a proxy that
// counts its exchanges.
func counting(t *testing.T, settings string) (*pgxpool.Pool, *faultproxy.Proxy) {
	t.Helper()
	proxy := faultproxy.Postgres(t, shared.Postgres(t).Addr())
	config, err := pgxpool.ParseConfig(servers.PostgresDSN(proxy.Addr()) + "&pool_max_conns=1" + settings)
	require.NoError(t, err)
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	p, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	require.NoError(t, p.Ping(t.Context()))
	return p, proxy
}

// try answers how many exchanges a batch takes, and what came of it.
func try(t *testing.T, proxy *faultproxy.Proxy, s *postgres.Store, groups ...[]storage.Swap) (exchanges, swapped int) {
	t.Helper()
	proxy.Plan()
	for _, o := range s.CompareAndSwapBatch(t.Context(), groups...) {
		require.NoError(t, o.Err)
		if o.Swapped {
			swapped++
		}
	}
	return proxy.Seen(), swapped
}

// A swap is one round trip, whatever it does and however many keys and groups
// there are. The first of a connection is two where statements are prepared.
func TestRoundTrips(t *testing.T) {
	for mode, first := range map[string]int{"cache_statement": 2, "cache_describe": 2, "exec": 1} {
		t.Run(mode, func(t *testing.T) {
			p, proxy := counting(t, "&default_query_exec_mode="+mode)
			s, _ := fresh(t, p)
			var many [][]storage.Swap
			for i := range 64 {
				many = append(many, creating(fmt.Sprint("many ", i)))
			}
			two := creating("a", "b")
			for _, c := range []struct {
				name            string
				groups          [][]storage.Swap
				trips, swapping int
			}{
				{"the first", [][]storage.Swap{creating("first")}, first, 1},
				{"a creation", [][]storage.Swap{creating("one")}, 1, 1},
				{"a conflict", [][]storage.Swap{creating("one")}, 1, 0},
				{"two keys", [][]storage.Swap{two}, 1, 1},
				{"two keys, again", [][]storage.Swap{after(two)}, 1, 1},
				{"a conflict of two keys", [][]storage.Swap{after(two)}, 1, 0},
				{"many groups", many, 1, 64},
				{"many groups, again, one in conflict", append(replacing(many[1:]), creating("many 0")), 1, 63},
			} {
				trips, swapped := try(t, proxy, s, c.groups...)
				require.Equal(t, c.trips, trips, c.name)
				require.Equal(t, c.swapping, swapped, c.name)
			}
		})
	}
}

// after is the swap that follows another on the same keys.
func after(swaps []storage.Swap) []storage.Swap {
	var next []storage.Swap
	for _, s := range swaps {
		follow := creating(s.Key)[0]
		follow.Old = s.New.Version
		next = append(next, follow)
	}
	return next
}

func replacing(groups [][]storage.Swap) [][]storage.Swap {
	var next [][]storage.Swap
	for _, group := range groups {
		next = append(next, after(group))
	}
	return next
}

// In a transaction of the caller a savepoint stands around what creates several
// keys, and its begin and end are a round trip each.
func TestRoundTripsInATransaction(t *testing.T) {
	p, proxy := counting(t, "")
	_, table := fresh(t, p)
	s := inside(t, transaction(t, p), table)
	try(t, proxy, s, creating("first"))
	trips, _ := try(t, proxy, s, creating("one"))
	require.Equal(t, 1, trips)
	two := creating("a", "b")
	trips, _ = try(t, proxy, s, two)
	require.Equal(t, 3, trips)
	trips, _ = try(t, proxy, s, after(two))
	require.Equal(t, 1, trips)
}
