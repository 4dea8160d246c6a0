package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/redis"
	"github.com/sluice-go/sluice/storage/sqlite"
)

var shared servers.Shared

func TestMain(m *testing.M) {
	for variable, run := range map[string]func(text string) error{taskVariable: runMember, spenderVariable: runSpender} {
		if text := os.Getenv(variable); text != "" {
			if err := run(text); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(shared.Main(m, servers.RedisPrograms+" "+servers.PostgresPrograms))
}

// databases return the address of a database that several tests share.
var databases = map[string]func(t *testing.T) string{
	"redis":    func(t *testing.T) string { return redisAt(shared.Redis(t)) },
	"postgres": func(t *testing.T) string { return shared.Postgres(t).DSN() },
	"sqlite":   sqliteFile,
}

func redisAt(server *servers.RedisServer) string { return "redis://" + server.Addr() }

// sqliteFile returns the address of a new file. A commit survives a kill of any process.
func sqliteFile(t *testing.T) string {
	return "file:" + filepath.Join(t.TempDir(), "fleet.db") + "?_journal_mode=WAL&_synchronous=NORMAL&_busy_timeout=20000"
}

// openAddress opens a store at an address. Several processes can open the same address.
func openAddress(address string) (store storage.Store, release func(), err error) {
	switch {
	case strings.HasPrefix(address, "redis://"):
		client := goredis.NewClient(&goredis.Options{Addr: strings.TrimPrefix(address, "redis://")})
		store, err = redis.New(client, redis.Options{})
		return store, func() { client.Close() }, err
	case strings.HasPrefix(address, "postgres://"):
		pool, err := pgxpool.New(context.Background(), address)
		if err != nil {
			return nil, nil, err
		}
		s, err := postgres.New(pool, postgres.Options{})
		return s, pool.Close, errors.Join(err, s.Migrate(context.Background()))
	}
	db, err := sql.Open("sqlite3", address)
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlite.New(db, sqlite.Options{})
	return s, func() { db.Close() }, errors.Join(err, s.Migrate(context.Background()))
}

// openStore opens a store for a test.
func openStore(t *testing.T, address string) storage.Store {
	t.Helper()
	s, release, err := openAddress(address)
	require.NoError(t, err)
	t.Cleanup(release)
	return s
}

// bySwaps hides the optional interfaces of a store.
type bySwaps struct{ storage.Store }

// forEachStore runs a test on each store. open opens the same store again, like another process.
func forEachStore(t *testing.T, test func(t *testing.T, open func() storage.Store)) {
	for name, s := range map[string]storage.Store{"memory": new(memory.Store), "memory, by swaps": bySwaps{new(memory.Store)}} {
		t.Run(name, func(t *testing.T) { test(t, func() storage.Store { return s }) })
	}
	for name, address := range databases {
		t.Run(name, func(t *testing.T) {
			p := address(t)
			test(t, func() storage.Store { return openStore(t, p) })
		})
	}
}
