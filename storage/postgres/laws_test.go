// The tests of this package promise:
//
//   - The store obeys the laws of package storagetest with prepared statements, in text format and
//     behind PgBouncer (laws_test.go, rows_test.go).
//   - A swap and a batch are one round trip each (round_trips_test.go), find rows by their keys
//     (plan_test.go) and update existing rows without writing an index (purge_test.go).
//   - Statements work behind a pooler that loses prepared statements (pooler_test.go).
//   - Whatever happens to a message, errors report correctly whether a write was applied
//     (fault_sweep_test.go, swap_test.go, failure_test.go).
//   - A row that the table drops, changes or hides is an error (dropped_write_test.go).
//   - Concurrent statements do not deadlock and lose no write (concurrent_create_test.go,
//     swap_test.go, run_test.go). A call ends shortly before its deadline (lock_timeout_test.go).
//   - A store in a transaction of the caller commits or rolls back with it (transaction_test.go).
//   - Migrate creates what is missing, once, next to the table (migrate_test.go). Purge removes only
//     expired records (purge_test.go).
package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/storagetest"
)

var (
	shared servers.Shared
	tables atomic.Int64
)

func TestMain(m *testing.M) { os.Exit(shared.Main(m, "postgres")) }

func newPool(t *testing.T, dsn string) *pgxpool.Pool {
	p, err := pgxpool.New(context.Background(), dsn)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func open(t *testing.T, db postgres.DB, o postgres.Options) *postgres.Store {
	s, err := postgres.New(db, o)
	require.NoError(t, err)
	require.NoError(t, s.Migrate(context.Background()))
	return s
}

// newPair returns a pair of stores on tables that no other test uses, and the quoted names of the tables. Their
// lock timeout is so long that only a deadlock can refuse a request, and not a busy machine. The server detects
// a deadlock in a second.
func newPair(t *testing.T, p *pgxpool.Pool) (h storagetest.Harness, names []string) {
	table := fmt.Sprintf("laws %d", tables.Add(1))
	var stores []*postgres.Store
	for _, o := range []postgres.Options{{Table: table}, {Table: table + `"`, Schema: "public"}} {
		s := open(t, p, o)
		s.SetLockTimeout(time.Minute)
		stores, names = append(stores, s), append(names, pgx.Identifier{o.Table}.Sanitize())
	}
	advance := func(d time.Duration) {
		for _, name := range names {
			_, err := p.Exec(context.Background(), "UPDATE "+name+" SET expires_at = expires_at - $1::interval, purge_at = purge_at - $1::interval", d)
			require.NoError(t, err)
		}
	}
	dropWrites := func(key string) {
		_, err := p.Exec(context.Background(), fmt.Sprintf(`CREATE OR REPLACE FUNCTION drop_write() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE OR REPLACE TRIGGER "drop %x" BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NEW.key = decode('%x', 'hex')) EXECUTE FUNCTION drop_write()`, key, names[0], key))
		require.NoError(t, err)
	}
	return storagetest.Harness{Store: stores[0], Other: stores[1], Advance: advance, DropWrites: dropWrites, Slack: time.Microsecond}, names
}

// Without prepared statements the reply is in text format. The format of bytea is a setting of the session.
func TestLaws(t *testing.T) {
	for name, dsn := range map[string]string{
		"prepared statements":    shared.Postgres(t).DSN(),
		"text format":            shared.Postgres(t).DSN() + "&default_query_exec_mode=simple_protocol&bytea_output=escape",
		"exec, behind PgBouncer": shared.PgBouncer(t).DSN() + "&default_query_exec_mode=exec",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, dsn)
			h, tables := newPair(t, p)
			storagetest.Run(t, func(t *testing.T) storagetest.Harness { // it takes long to create the tables for each law
				_, err := p.Exec(t.Context(), "TRUNCATE "+strings.Join(tables, ", ")+"; DROP FUNCTION IF EXISTS drop_write CASCADE")
				require.NoError(t, err)
				return h
			})
		})
	}
}
