package benchmarks

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage/postgres"
)

// postgresWorks are named for processes x callers.
func postgresWorks() []work {
	upsert, increment := postgresUpsert.name, postgresIncrement.name
	return []work{
		{
			area: "postgres", name: "1x64, 10,000 keys", keys: 10_000, goroutines: 64,
			contenders: []contender{sluiceOnPostgres, postgresUpsert, postgresUpserts, oneFsync},
			goals:      []ratio{{to: upsert, goal: 4.2}},
		}, {
			area: "postgres", name: "1x64, one key", keys: 1, goroutines: 64,
			contenders: []contender{sluiceOnPostgres, postgresIncrement, oneFsync},
			goals:      []ratio{{to: increment, goal: 25}},
		}, {
			area: "postgres", name: "4x16, 10,000 keys", keys: 10_000, goroutines: 16, processes: 4,
			contenders: []contender{sluiceOnPostgres, postgresUpsert},
			goals:      []ratio{{to: upsert, goal: 2}},
		}, {
			area: "postgres", name: "4x16, one key", keys: 1, goroutines: 16, processes: 4,
			contenders: []contender{sluiceOnPostgres, postgresIncrement},
			goals:      []ratio{{to: increment, goal: 7.5}, {to: increment, goal: 0.15, p99: true}},
		}, {
			area: "postgres", name: "4x1, 100 keys", keys: 100, goroutines: 1, processes: 4,
			contenders: []contender{sluiceOnPostgres, postgresUpsert},
			goals:      []ratio{{to: upsert, goal: 0.8}},
		},
	}
}

var postgresServer *servers.PostgresServer

// postgresAddress is that of a server with the durability that it has by default.
func postgresAddress(t testing.TB) string {
	if addr := os.Getenv(postgresAddr); addr != "" {
		return addr
	}
	if postgresServer == nil {
		postgresServer = servers.Postgres(t, "fsync = on", "full_page_writes = on", "shared_buffers = 128MB", "max_connections = 300")
	}
	return postgresServer.DSN()
}

// postgresPool has that many connections, or what pgxpool takes by default for 0. No peer here has a store in
// Postgres: floors stand for what one would cost at least.
func postgresPool(t testing.TB, connections int32) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(postgresAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	if connections > 0 {
		config.MaxConns = connections
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// floorConnections is the size of pool with which the floors, which have a statement under
// way for each caller, are faster than by default.
const floorConnections = 16

// sluiceOnPostgres has the pool that the README recommends, which is the default.
var sluiceOnPostgres = contender{name: "sluice", open: func(t testing.TB, count int64, period time.Duration) decider {
	store, err := postgres.New(postgresPool(t, 0), postgres.Options{})
	if err == nil {
		err = store.Migrate(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return oneRule(t, store, count, period)
}}

var postgresUpsert = floorOnPostgres("floor: one upsert each",
	`CREATE TABLE IF NOT EXISTS floor_upsert (key bytea PRIMARY KEY, version bigint NOT NULL, state bytea NOT NULL)`,
	`INSERT INTO floor_upsert VALUES ($1, 1, $2) ON CONFLICT (key) DO UPDATE SET version = floor_upsert.version + 1, state = excluded.state`,
	make([]byte, 30))

var postgresIncrement = floorOnPostgres("floor: one increment each",
	`CREATE TABLE IF NOT EXISTS floor_increment (key bytea PRIMARY KEY, n bigint NOT NULL)`,
	`INSERT INTO floor_increment VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET n = floor_increment.n + 1`)

// postgresUpserts writes what all callers ask who are there, in one statement. It
// compares nothing, so it does not matter that one of equal keys wins.
var postgresUpserts = contender{name: "floor: upserts together", open: func(t testing.TB, count int64, _ time.Duration) decider {
	pool := postgresPool(t, floorConnections)
	if _, err := pool.Exec(context.Background(), `CREATE TABLE IF NOT EXISTS floor_upserts (key bytea PRIMARY KEY, version bigint NOT NULL, state bytea NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	state := make([]byte, 30)
	return together(t, 2, count, func(ctx context.Context, keys []string) error {
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

func floorOnPostgres(name, table, statement string, args ...any) contender {
	return contender{name: name, open: func(t testing.TB, _ int64, _ time.Duration) decider {
		pool := postgresPool(t, floorConnections)
		if _, err := pool.Exec(context.Background(), table); err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context, key string) (bool, error) {
			tag, err := pool.Exec(ctx, statement, append([]any{[]byte(key)}, args...)...)
			if err == nil && tag.RowsAffected() != 1 {
				err = fmt.Errorf("%d rows were written", tag.RowsAffected())
			}
			return true, err
		}
	}}
}
