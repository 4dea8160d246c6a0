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
	"github.com/sluice-go/sluice/storage/driver"
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

// try returns how many exchanges a swap takes, and whether it was applied.
func try(t *testing.T, proxy *faultproxy.Proxy, s *postgres.Store, swaps ...storage.Swap) (exchanges int, swapped bool) {
	t.Helper()
	proxy.Plan()
	_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
	require.NoError(t, err)
	return proxy.Seen(), swapped
}

// A swap is one round trip, whatever it does and however many keys
// there are. The first of a connection is two where statements are prepared.
func TestRoundTrips(t *testing.T) {
	for mode, first := range map[string]int{"cache_statement": 2, "cache_describe": 2, "exec": 1} {
		t.Run(mode, func(t *testing.T) {
			p, proxy := counting(t, "&default_query_exec_mode="+mode)
			s, _ := fresh(t, p)
			var names []string
			for i := range 64 {
				names = append(names, fmt.Sprint("many ", i))
			}
			two, many := creating("a", "b"), creating(names...)
			for _, c := range []struct {
				name    string
				swaps   []storage.Swap
				trips   int
				swapped bool
			}{
				{"the first", creating("first"), first, true},
				{"a creation", creating("one"), 1, true},
				{"a conflict", creating("one"), 1, false},
				{"two keys", two, 1, true},
				{"two keys, again", after(two), 1, true},
				{"a conflict of two keys", after(two), 1, false},
				{"many keys", many, 1, true},
				{"many keys, again", after(many), 1, true},
			} {
				trips, swapped := try(t, proxy, s, c.swaps...)
				require.Equal(t, c.trips, trips, c.name)
				require.Equal(t, c.swapped, swapped, c.name)
			}
		})
	}
}

// A batch is one round trip, also in a transaction of the caller unless a request has several
// uses: then a savepoint stands around it.
func TestRoundTripsOfRun(t *testing.T) {
	for mode, first := range map[string]int{"cache_statement": 2, "cache_describe": 2, "exec": 1} {
		t.Run(mode, func(t *testing.T) {
			p, proxy := counting(t, "&default_query_exec_mode="+mode)
			s, table := fresh(t, p)
			trips := func(s *postgres.Store, b *driver.Batch) int {
				proxy.Plan()
				s.Run(t.Context(), b)
				require.NoError(t, b.Err)
				return proxy.Seen()
			}
			require.Equal(t, first, trips(s, asking(t, "a", "b")))
			require.Equal(t, 1, trips(s, asking(t, "a", "c")))
			require.Equal(t, first, trips(s, together(t, "a", "b")))
			require.Equal(t, 1, trips(s, together(t, "a", "d")))
			within := inside(t, transaction(t, p), table)
			require.Equal(t, 1, trips(within, asking(t, "a", "e")))
			require.Equal(t, 3, trips(within, together(t, "a", "f")))
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

// In a transaction of the caller a savepoint stands around what creates several
// keys, and its begin and end are a round trip each.
func TestRoundTripsInATransaction(t *testing.T) {
	p, proxy := counting(t, "")
	_, table := fresh(t, p)
	s := inside(t, transaction(t, p), table)
	try(t, proxy, s, creating("first")...)
	trips, _ := try(t, proxy, s, creating("one")...)
	require.Equal(t, 1, trips)
	two := creating("a", "b")
	trips, _ = try(t, proxy, s, two...)
	require.Equal(t, 3, trips)
	trips, _ = try(t, proxy, s, after(two)...)
	require.Equal(t, 1, trips)
}
