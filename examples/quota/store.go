package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/mattn/go-sqlite3"
	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/redis"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// open opens the store at an address. The store stays open until the process ends.
func open(ctx context.Context, address string) (storage.Store, error) {
	switch scheme, rest, _ := strings.Cut(address, ":"); scheme {
	case "memory":
		return new(memory.Store), nil
	case "sqlite":
		return openSQLite(ctx, rest)
	case "postgres", "postgresql":
		return openPostgres(ctx, address)
	case "redis", "rediss":
		return openRedis(address)
	}
	return nil, fmt.Errorf("-store must be memory:, sqlite:FILE, postgres://... or redis://..., got %q", address)
}

func openSQLite(ctx context.Context, file string) (*sqlite.Store, error) {
	db, err := sql.Open("sqlite3", "file:"+url.PathEscape(file)+"?_journal_mode=WAL&_busy_timeout=5000&_stmt_cache_size=16")
	if err != nil {
		return nil, err
	}
	store, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return store, store.Migrate(ctx)
}

func openPostgres(ctx context.Context, address string) (*postgres.Store, error) {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, err
	}
	store, err := postgres.New(pool, postgres.Options{})
	if err != nil {
		return nil, err
	}
	return store, store.Migrate(ctx)
}

func openRedis(address string) (storage.Store, error) {
	options, err := goredis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	options.ContextTimeoutEnabled = true
	options.DialerRetries = 1 // the limiter retries
	return redis.New(goredis.NewClient(options), redis.Options{})
}
