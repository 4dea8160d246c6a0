package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

// PgBouncer gives a connection of the server to each client in turn. So a statement that pgx has
// prepared exists already, or does not exist. A client that uses unnamed statements may find another one.
func TestEveryModeOfPgxWorksBehindPgBouncer(t *testing.T) {
	for _, mode := range []string{"", "&default_query_exec_mode=describe_exec", "&default_query_exec_mode=cache_describe"} {
		t.Run("mode "+mode, func(t *testing.T) {
			const processes, times = 5, 8
			bouncer, table := servers.PgBouncer(t, shared.Postgres(t), "default_pool_size = 3"), fmt.Sprint("pooler_", tables.Add(1))
			var group sync.WaitGroup
			for i := range processes {
				s := storeOn(t, newPoolAt(t, bouncer.DSN()+mode), postgres.Options{Table: table})
				s.SetLockTimeout(time.Minute)
				group.Go(func() {
					assert.NoError(t, s.Migrate(context.Background()))
					for n := range times {
						assert.NoError(t, errors.Join(callAll(context.Background(), s, fmt.Sprint(i, "/", n))...))
					}
				})
			}
			group.Wait()
		})
	}
}

// The server notices a wrong statement only by the number of its parameters.
func TestEachStatementHasAnotherNumberOfParameters(t *testing.T) {
	p := newPool(t, "")
	s, _ := newStore(t, p)
	tx, of := begin(t, p), map[int]string{}
	for _, text := range s.Statements() {
		d, err := tx.Prepare(t.Context(), text, text)
		require.NoError(t, err)
		require.Empty(t, of[len(d.ParamOIDs)], text)
		of[len(d.ParamOIDs)] = text
	}
}

// A failed statement ends a transaction of the caller, so the store cannot send it again.
func TestErrorOfALostStatementHasTheRemedy(t *testing.T) {
	const remedy = "default_query_exec_mode=exec"
	bouncer := servers.PgBouncer(t, shared.Postgres(t), "default_pool_size = 1")
	first, table := newStore(t, newPoolAt(t, bouncer.DSN()))
	existing(t, first, "a")
	_, _, err := storeIn(t, begin(t, newPoolAt(t, bouncer.DSN())), table).Load(t.Context(), "a")
	requireEnded(t, err, "42P05")
	require.ErrorContains(t, err, remedy)

	for code, message := range map[string]string{"42P05": "", "26000": "", "08P01": `bind message supplies 1 parameters, but prepared statement "" requires 8`} {
		s := storeOn(t, failingDB{&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: code, Message: message}}, postgres.Options{})
		for _, err := range callAll(t.Context(), s, "a") {
			requireKinds(t, err, storage.ErrNotApplied)
			require.ErrorContains(t, err, remedy)
		}
	}
}
