package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

// callAll calls every method of a store that sends a statement, and returns the errors.
func callAll(t *testing.T, ctx context.Context, s *postgres.Store, key string) (errs []error) {
	batches := []*driver.Batch{requestEach(t, key), requestEach(t, key, "shared"), oneRequest(t, key, "shared")}
	for _, b := range batches {
		if !s.Runs(b.Programs[0]) { // the DB is not a pool
			continue
		}
		s.Run(ctx, b)
		errs = append(append(errs, b.Err), b.KeyErr...)
	}
	_, _, err := s.Load(ctx, key)
	_, _, err2 := s.CompareAndSwap(ctx, creating(key+" swapped")...)
	_, err3 := s.Purge(ctx, 1)
	return append(errs, s.Migrate(ctx), err, err2, err3)
}

// PgBouncer gives a connection of the server to each client in turn. So a statement that pgx has
// prepared exists already, or does not exist. A client that uses unnamed statements may find another one.
func TestEveryModeOfPgxWorksBehindPgBouncer(t *testing.T) {
	for _, mode := range []string{"", "&default_query_exec_mode=describe_exec", "&default_query_exec_mode=cache_describe"} {
		t.Run("mode "+mode, func(t *testing.T) {
			const processes, times = 5, 8
			bouncer, table := servers.PgBouncer(t, shared.Postgres(t), "default_pool_size = 3"), fmt.Sprint("pooler_", tables.Add(1))
			errs := make([]error, processes)
			var group sync.WaitGroup
			for i := range processes {
				s, err := postgres.New(newPool(t, bouncer.DSN()+mode), postgres.Options{Table: table})
				require.NoError(t, err)
				s.SetLockTimeout(time.Minute)
				group.Go(func() {
					errs[i] = s.Migrate(context.Background())
					for n := range times {
						errs[i] = errors.Join(append(callAll(t, context.Background(), s, fmt.Sprint(i, "/", n)), errs[i])...)
					}
				})
			}
			group.Wait()
			require.NoError(t, errors.Join(errs...))
		})
	}
}

// A failed statement ends a transaction of the caller, so the store cannot send it again.
func TestErrorOfALostStatementHasTheRemedy(t *testing.T) {
	const remedy = "default_query_exec_mode=exec"
	ctx, bouncer := t.Context(), servers.PgBouncer(t, shared.Postgres(t), "default_pool_size = 1")
	first, table := newStore(t, newPool(t, bouncer.DSN()))
	_, _, err := first.Load(ctx, "a")
	require.NoError(t, err)
	tx, err := newPool(t, bouncer.DSN()).Begin(ctx)
	require.NoError(t, err)
	defer tx.Rollback(ctx)
	_, _, err = storeIn(t, tx, table).Load(ctx, "a")
	requireEnded(t, err, "42P05")
	require.ErrorContains(t, err, remedy)

	for code, message := range map[string]string{"42P05": "", "26000": "", "08P01": `bind message supplies 1 parameters, but prepared statement "" requires 8`} {
		s, err := postgres.New(failingDB{&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: code, Message: message}}, postgres.Options{})
		require.NoError(t, err)
		for _, err := range callAll(t, ctx, s, "a") {
			requireKinds(t, err, storage.ErrNotApplied)
			require.ErrorContains(t, err, remedy)
		}
	}
}
