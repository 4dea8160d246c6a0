// The tests of this package promise:
//
//   - The store obeys the laws of package storagetest with prepared statements, in text format and
//     behind PgBouncer (laws_test.go, rows_test.go, outage_test.go), and each fault in a statement
//     breaks a law (run_test.go).
//   - A swap and a batch are one round trip each (round_trips_test.go), find rows by their keys
//     (plan_test.go) and update existing rows without writing an index (purge_test.go).
//   - Whatever happens to a message, errors report correctly whether a write was applied
//     (fault_sweep_test.go, swap_test.go, failure_test.go).
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
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
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

// harness returns a pair of stores on tables that no other test uses. Their lock timeout is so long
// that only a deadlock can refuse a request, and not a busy machine. The server detects a deadlock in
// a second.
func harness(p *pgxpool.Pool) func(t *testing.T) storagetest.Harness {
	return func(t *testing.T) storagetest.Harness {
		table := fmt.Sprintf("laws %d", tables.Add(1))
		s, other := open(t, p, postgres.Options{Table: table}), open(t, p, postgres.Options{Table: table + `"`, Schema: "public"})
		s.SetLockTimeout(time.Minute)
		other.SetLockTimeout(time.Minute)
		return storagetest.Harness{
			Store: s,
			Other: other,
			Advance: func(d time.Duration) {
				for _, t2 := range []string{`"` + table + `"`, `"` + table + `"""`} {
					_, err := p.Exec(context.Background(), "UPDATE "+t2+" SET expires_at = expires_at - $1::interval, purge_at = purge_at - $1::interval", d)
					require.NoError(t, err)
				}
			},
			Slack: time.Microsecond,
		}
	}
}

func TestLaws(t *testing.T) {
	storagetest.Run(t, harness(newPool(t, shared.Postgres(t).DSN())))
}
