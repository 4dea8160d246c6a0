// Package stores opens the stores that the commands name by an address.
package stores

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/redis"
)

// Variable is the environment variable with the address of the store. Unlike a flag, process
// lists do not show it.
const Variable = "SLUICE_STORE"

// Options configure a store.
type Options struct {
	MaxKeys     int    // the most keys of each rule in the memory store; 0: memory.DefaultMaxKeys
	NoFunctions bool   // see postgres.Options
	Existing    bool   // do not create an SQLite file, and keep its settings
	Table       string // of SQLite and PostgreSQL, and Options.Prefix of Redis; empty: the default
}

// Store is a store. It may not be connected yet.
type Store struct {
	storage.Store
	Address string                          // redacted
	Prepare func(ctx context.Context) error // connects to the store and creates its table
	close   func()                          // nil: there is nothing to close
}

// Close closes the connections of the store.
func (s *Store) Close() {
	if s.close != nil {
		s.close()
	}
}

// FromFlag returns the address in the flag --store or, without that flag, in the environment variable. from is the name of that
// flag or variable.
func FromFlag(flags *pflag.FlagSet) (address, from string, err error) {
	address, from = flags.Lookup("store").Value.String(), "--store"
	if other := os.Getenv(Variable); other != "" && !flags.Changed("store") {
		address, from = other, Variable
	}
	if address == "" {
		return "", "", cli.Usagef("no store; give its URL in --store or in the environment variable %s", Variable)
	}
	if err := check(address); err != nil {
		return "", "", cli.Usagef("%s %v", from, err)
	}
	return address, from, nil
}

// Open returns the store of an address. It does not connect.
func Open(address string, options Options) (*Store, error) {
	if err := check(address); err != nil {
		return nil, err
	}
	scheme, rest, _ := strings.Cut(address, ":")
	s := &Store{Address: redacted(address), Prepare: func(context.Context) error { return nil }}
	var err error
	switch scheme {
	case "memory":
		// Without this Clock, windows by the calendar would be late after the machine has slept.
		s.Store = &memory.Store{MaxKeys: options.MaxKeys, Clock: time.Now}
	case "sqlite":
		err = s.sqlite(rest, options)
	case "postgres", "postgresql":
		err = s.postgres(address, options)
	case "redis", "rediss":
		err = s.redis(address, options)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %s", s.Address, readable.OneLine(err))
	}
	return s, nil
}

func (s *Store) postgres(address string, o Options) error {
	pool, err := pgxpool.New(context.Background(), address)
	if err != nil {
		return withoutAddress(err)
	}
	s.close = func() {
		ctx, cancel := context.WithTimeout(context.Background(), CloseTime)
		defer cancel()
		_, _ = cli.Await(ctx, func() (any, error) {
			pool.Close()
			return nil, nil
		})
	}
	store, err := postgres.New(pool, postgres.Options{Table: o.Table, NoFunctions: o.NoFunctions})
	s.Store = store
	s.Prepare = store.Migrate
	return err
}

// CloseTime is how long Close waits for connections to PostgreSQL. If PostgreSQL does
// not answer, the pool waits 15 seconds for each connection that had a query.
const CloseTime = time.Second

func (s *Store) redis(address string, o Options) error {
	options, err := goredis.ParseURL(address)
	if err != nil {
		return withoutAddress(err)
	}
	options.ContextTimeoutEnabled = true
	options.DialerRetries = 1 // the limiter tries again by itself
	disableRedisLog()
	client := goredis.NewClient(options)
	s.close = func() { _ = client.Close() }
	store, err := redis.New(client, redis.Options{Prefix: o.Table})
	s.Store = store
	s.Prepare = func(ctx context.Context) error { // the user of the client may have no right to PING
		_, _, err := store.Load(ctx, "probe")
		return err
	}
	return err
}

// disableRedisLog keeps go-redis from printing each connection that fails; the server logs these
// errors too. The log of go-redis is one for the whole process.
var disableRedisLog = sync.OnceFunc(logging.Disable)
