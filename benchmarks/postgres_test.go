package benchmarks

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage/postgres"
)

func postgresWorkloads() []work {
	upsert := func(goal float64) []ratio { return []ratio{{to: postgresUpsert.name, goal: goal}} }
	increment := func(goal float64) []ratio { return []ratio{{to: postgresIncrement.name, goal: goal}} }
	p99 := ratio{to: postgresIncrement.name, goal: 0.15, p99: true}
	return []work{
		row("postgres", 1, 1, 10_000, "10,000 keys", upsert(0.6), sluiceOnPostgres, postgresUpsert),
		row("postgres", 1, 64, 10_000, "10,000 keys", upsert(3), sluiceOnPostgres, postgresUpsert, postgresUpserts, oneFsync),
		row("postgres", 1, 64, 1, "one key", increment(25), sluiceOnPostgres, postgresIncrement, oneFsync),
		row("postgres", 4, 16, 10_000, "10,000 keys", upsert(1.7), sluiceOnPostgres, postgresUpsert),
		row("postgres", 4, 16, 1, "one key", append(increment(7.5), p99), sluiceOnPostgres, postgresIncrement),
		row("postgres", 4, 1, 100, "100 keys", upsert(0.7), sluiceOnPostgres, postgresUpsert),
	}
}

var postgresServer *servers.PostgresServer

// postgresAddress returns the address of a server with default durability.
func postgresAddress(t testing.TB) string {
	if addr := os.Getenv(postgresAddr); addr != "" {
		return addr
	}
	if postgresServer == nil {
		postgresServer = servers.Postgres(t, "fsync = on", "full_page_writes = on", "shared_buffers = 128MB", "max_connections = 300")
	}
	return postgresServer.DSN()
}

// postgresPool returns a pool of that many connections; 0 means the default of pgxpool.
func postgresPool(t testing.TB, connections int32) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(postgresAddress(t))
	must(t, err)
	if connections > 0 {
		config.MaxConns = connections
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// floorConnections is the pool size of the floors. They run a statement for each caller, and are
// faster with it than with the default.
const floorConnections = 16

// sluiceOnPostgres uses the default pool, which docs/recipes.md recommends.
var sluiceOnPostgres = serverLimiter{name: "sluice", open: func(t testing.TB, count int64, period time.Duration) decideFunc {
	store, err := postgres.New(postgresPool(t, 0), postgres.Options{})
	if err == nil {
		err = store.Migrate(context.Background())
	}
	must(t, err)
	return oneRule(t, store, count, period)
}}

var postgresUpsert = postgresFloor("floor: one upsert each",
	`CREATE TABLE IF NOT EXISTS floor_upsert (key bytea PRIMARY KEY, version bigint NOT NULL, state bytea NOT NULL)`,
	`INSERT INTO floor_upsert VALUES ($1, 1, $2) ON CONFLICT (key) DO UPDATE SET version = floor_upsert.version + 1, state = excluded.state`,
	make([]byte, 30))

var postgresIncrement = postgresFloor("floor: one increment each",
	`CREATE TABLE IF NOT EXISTS floor_increment (key bytea PRIMARY KEY, n bigint NOT NULL)`,
	`INSERT INTO floor_increment VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET n = floor_increment.n + 1`)

// postgresUpserts writes the keys of all waiting callers in one statement. It writes equal keys
// once.
var postgresUpserts = serverLimiter{name: "floor: upserts, batched", open: func(t testing.TB, count int64, _ time.Duration) decideFunc {
	pool := postgresPool(t, floorConnections)
	_, err := pool.Exec(context.Background(), `CREATE TABLE IF NOT EXISTS floor_upserts (key bytea PRIMARY KEY, version bigint NOT NULL, state bytea NOT NULL)`)
	must(t, err)
	state := make([]byte, 30)
	return batched(t, 2, count, func(ctx context.Context, keys []string) error {
		slices.Sort(keys)
		var names [][]byte
		for _, key := range slices.Compact(keys) {
			names = append(names, []byte(key))
		}
		_, err := pool.Exec(ctx, `INSERT INTO floor_upserts SELECT key, 1, $2 FROM unnest($1::bytea[]) AS k (key)
			ON CONFLICT (key) DO UPDATE SET version = floor_upserts.version + 1, state = excluded.state`, names, state)
		return err
	})
}}

func postgresFloor(name, table, statement string, args ...any) serverLimiter {
	return serverLimiter{name: name, open: func(t testing.TB, _ int64, _ time.Duration) decideFunc {
		pool := postgresPool(t, floorConnections)
		_, err := pool.Exec(context.Background(), table)
		must(t, err)
		return func(ctx context.Context, key string) (bool, error) {
			tag, err := pool.Exec(ctx, statement, append([]any{[]byte(key)}, args...)...)
			if err == nil && tag.RowsAffected() != 1 {
				err = fmt.Errorf("%d rows were written", tag.RowsAffected())
			}
			return true, err
		}
	}}
}
