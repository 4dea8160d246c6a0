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

func pool(t *testing.T, dsn string) *pgxpool.Pool {
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

// harness is a pair of stores on tables that nothing else uses. Requests that share a
// statement wait so long that only a deadlock, which the server finds in a second, has
// them refused, and not a busy machine.
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
	storagetest.Run(t, harness(pool(t, shared.Postgres(t).DSN())))
}
