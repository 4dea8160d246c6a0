package fleet

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/redis"
	"github.com/sluice-go/sluice/storage/sqlite"
)

var shared servers.Shared

func TestMain(m *testing.M) {
	for variable, life := range map[string]func(text string) error{taskVariable: serve, spenderVariable: serveSpender} {
		if text := os.Getenv(variable); text != "" {
			if err := life(text); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(shared.Main(m, servers.RedisPrograms+" "+servers.PostgresPrograms))
}

// networked and databases make the place of a database that others may use too.
var (
	networked = map[string]func(t *testing.T) string{
		"redis":    func(t *testing.T) string { return redisAt(shared.Redis(t)) },
		"postgres": func(t *testing.T) string { return shared.Postgres(t).DSN() },
	}
	databases = map[string]func(t *testing.T) string{
		"redis":    networked["redis"],
		"postgres": networked["postgres"],
		"sqlite":   sqliteFile,
	}
)

func redisAt(server *servers.RedisServer) string { return "redis://" + server.Addr() }

// sqliteFile is a new file. A commit survives the death of any process.
func sqliteFile(t *testing.T) string {
	return "file:" + filepath.Join(t.TempDir(), "fleet.db") + "?_journal_mode=WAL&_synchronous=NORMAL&_busy_timeout=20000"
}

// openPlace makes a store of its own at a place, which leads to a database that
// processes share.
func openPlace(place string) (storage.Store, func(), error) {
	switch {
	case strings.HasPrefix(place, "redis://"):
		client := goredis.NewClient(&goredis.Options{Addr: strings.TrimPrefix(place, "redis://")})
		s, err := redis.New(client, redis.Options{})
		return s, func() { client.Close() }, err
	case strings.HasPrefix(place, "postgres://"):
		return openPostgres(place)
	}
	return openSQLite(place)
}

func openPostgres(dsn string) (storage.Store, func(), error) {
	pool, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		return nil, nil, err
	}
	s, err := postgres.New(pool, postgres.Options{})
	if err == nil {
		err = s.Migrate(context.Background())
	}
	return s, pool.Close, err
}

func openSQLite(dsn string) (storage.Store, func(), error) {
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlite.New(db, sqlite.Options{})
	if err == nil {
		err = s.Migrate(context.Background())
	}
	return s, func() { db.Close() }, err
}

// openStore makes a store of its own at a place for a test.
func openStore(t *testing.T, place string) storage.Store {
	t.Helper()
	s, release, err := openPlace(place)
	require.NoError(t, err)
	t.Cleanup(release)
	return s
}

// eachStore runs a test on every store; open makes another face of the same
// one, as another process would have.
func eachStore(t *testing.T, test func(t *testing.T, open func() storage.Store)) {
	t.Run("memory", func(t *testing.T) {
		s := new(memory.Store)
		test(t, func() storage.Store { return s })
	})
	for name, place := range databases {
		t.Run(name, func(t *testing.T) {
			p := place(t)
			test(t, func() storage.Store { return openStore(t, p) })
		})
	}
}
