package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

// cancelQuery cancels the context of a call when its first query begins.
type cancelQuery struct{ cancel context.CancelFunc }

func (c cancelQuery) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.cancel()
	return ctx
}

func (cancelQuery) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// pgx closes a connection if the context of its round trip ends. To make a new one takes much longer than a decision.
func TestCancelledBatchKeepsItsConnection(t *testing.T) {
	_, table := newStore(t, newPool(t, ""))
	for _, timeout := range []time.Duration{400 * time.Millisecond, longTimeout} { // with and without a goroutine
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		config, err := pgxpool.ParseConfig(shared.Postgres(t).DSN())
		require.NoError(t, err)
		config.ConnConfig.Tracer = cancelQuery{cancel}
		p, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(p.Close)
		s := storeOn(t, p, postgres.Options{Table: table})
		b := requestEach("a")
		s.Run(ctx, b)
		require.Error(t, ctx.Err())
		require.Eventually(t, func() bool { return p.Stat().IdleConns() == 1 }, longTimeout, time.Millisecond)
		require.EqualValues(t, 1, p.Stat().NewConnsCount())
		if timeout == longTimeout {
			require.NoError(t, b.Err, "a caller that sends its own batch returns when the server has answered")
			require.Equal(t, 1, b.Requests[0].Applied)
		}
	}
}
