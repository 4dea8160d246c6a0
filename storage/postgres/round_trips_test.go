package postgres_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

// newCountedPool returns a pool with one open connection, and the proxy that counts its messages.
func newCountedPool(t *testing.T, settings string) (*pgxpool.Pool, *faultproxy.Proxy) {
	proxy := faultproxy.Postgres(t, shared.Postgres(t).Addr())
	p := newPoolWithoutPings(t, proxy, "&pool_max_conns=1"+settings)
	require.NoError(t, p.Ping(t.Context()))
	return p, proxy
}

// countSwap returns how many round trips a swap takes, and whether it was made.
func countSwap(t *testing.T, proxy *faultproxy.Proxy, s *postgres.Store, swaps ...storage.Swap) (trips int, swapped bool) {
	t.Helper()
	proxy.Plan()
	_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
	require.NoError(t, err)
	return proxy.Exchanges(), swapped
}

// The first statement of its kind on a connection takes two round trips if statements are prepared.
func TestSwapAndBatchAreOneRoundTripEach(t *testing.T) {
	for mode, first := range map[string]int{"cache_statement": 2, "cache_describe": 2, "exec": 1} {
		t.Run(mode, func(t *testing.T) {
			p, proxy := newCountedPool(t, "&default_query_exec_mode="+mode)
			s, _ := newStore(t, p)
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
				{"two keys, again", updating(two), 1, true},
				{"a conflict of two keys", updating(two), 1, false},
				{"many keys", many, 1, true},
				{"many keys, again", updating(many), 1, true},
			} {
				trips, swapped := countSwap(t, proxy, s, c.swaps...)
				require.Equal(t, c.trips, trips, c.name)
				require.Equal(t, c.swapped, swapped, c.name)
			}
			for i, b := range []*driver.Batch{requestEach("x", "y"), requestEach("x", "z"), oneRequest("x", "y"), oneRequest("e")} {
				proxy.Plan()
				run(t, s, b)
				require.Equal(t, map[bool]int{true: first, false: 1}[i == 0], proxy.Exchanges())
			}
		})
	}
}

// A swap that creates several keys needs a savepoint, whose begin and end are round trips.
func TestSwapInATransactionIsOneOrThreeRoundTrips(t *testing.T) {
	p, proxy := newCountedPool(t, "")
	_, table := newStore(t, p)
	s := storeIn(t, begin(t, p), table)
	countSwap(t, proxy, s, creating("first")...)
	two := creating("a", "b")
	for i, swaps := range [][]storage.Swap{creating("one"), two, updating(two)} {
		trips, _ := countSwap(t, proxy, s, swaps...)
		require.Equal(t, []int{1, 3, 1}[i], trips)
	}
}
