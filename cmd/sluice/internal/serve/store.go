package serve

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/mattn/go-sqlite3" // the driver
	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/redis"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// opened is a store. It may not be connected yet.
type opened struct {
	storage.Store
	address string                      // redacted
	prepare func(context.Context) error // connects to the store and creates its table
	close   func()
}

const storeForms = "memory:, sqlite:FILE, postgres://... or redis://..."

// CheckStore validates the address of a store without opening it.
func CheckStore(address string) error {
	scheme, rest, _ := strings.Cut(address, ":")
	switch {
	case scheme == "memory" && rest != "":
		return fmt.Errorf("%s: the store memory: takes no name; want memory:", redacted(address))
	case scheme == "sqlite":
		return checkFile(rest)
	case scheme == "memory":
	case !slices.Contains([]string{"postgres", "postgresql", "redis", "rediss"}, scheme) || !strings.HasPrefix(rest, "//"):
		return fmt.Errorf("%s: want %s", redacted(address), storeForms)
	case misread(scheme, rest):
		return fmt.Errorf("%s://...: the address has more than one @; in a password, write / as %%2F and @ as %%40", scheme)
	case strings.Contains(pathOf(rest), ";"):
		return fmt.Errorf("%s://...: the name has a semicolon; write parameters after a ? with & between, and a semicolon in a name as %%3B", scheme)
	}
	return nil
}

func checkFile(file string) error {
	switch {
	case file == "" || file == ":memory:":
		return fmt.Errorf("sqlite:%s: want a file name, such as sqlite:limits.db", file)
	case strings.HasPrefix(file, "//"), strings.ContainsRune(file, '?'):
		return fmt.Errorf("sqlite:%s: want a file name without parameters, such as sqlite:limits.db or sqlite:/var/lib/limits.db", file)
	}
	return nil
}

// newStore returns the store of an address. It does not connect.
func newStore(options Options) (*opened, error) {
	address := options.Store
	if err := CheckStore(address); err != nil {
		return nil, err
	}
	scheme, rest, _ := strings.Cut(address, ":")
	o := &opened{address: redacted(address), prepare: func(context.Context) error { return nil }, close: func() {}}
	var err error
	switch scheme {
	case "memory":
		o.Store = &memory.Store{MaxKeys: options.MaxKeys}
	case "sqlite":
		err = o.sqlite(rest)
	case "postgres", "postgresql":
		err = o.postgres(address, options.NoFunctions)
	case "redis", "rediss":
		err = o.redis(address)
	}
	if err != nil {
		o.close()
		return nil, fmt.Errorf("%s: %s", o.address, oneLine(err))
	}
	return o, nil
}

func (o *opened) sqlite(file string) error {
	name := (&url.URL{Path: file}).EscapedPath()
	db, err := sql.Open("sqlite3", "file:"+name+"?_journal_mode=WAL&_synchronous=NORMAL&_busy_timeout=5000&_stmt_cache_size=16")
	if err != nil {
		return err
	}
	o.close = func() { _ = db.Close() }
	store, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		return err
	}
	o.Store = store
	o.prepare = func(ctx context.Context) error {
		createPrivate(file)
		return store.Migrate(ctx)
	}
	return nil
}

// createPrivate creates a file, if it is not there, that nobody else may read: keys may
// be personal data. SQLite, which tells why a file cannot be created, gives the same
// mode to those that it puts beside it.
func createPrivate(file string) {
	if f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_ = f.Close()
	}
}

func (o *opened) postgres(address string, noFunctions bool) error {
	pool, err := pgxpool.New(context.Background(), address)
	if err != nil {
		return unparsed(err)
	}
	o.close = pool.Close
	store, err := postgres.New(pool, postgres.Options{NoFunctions: noFunctions})
	if err != nil {
		return err
	}
	o.Store = store
	o.prepare = func(ctx context.Context) error {
		err := store.Migrate(ctx)
		if err != nil && canDecide(ctx, store, noFunctions) {
			return nil
		}
		return err
	}
	return nil
}

// canDecide reports whether there are the table and the functions that a store uses. A role that may not
// create them may still use them.
func canDecide(ctx context.Context, store *postgres.Store, noFunctions bool) bool {
	absent := driver.Key("")
	if noFunctions {
		_, err := store.Load(ctx, absent)
		return err == nil
	}
	reset := driver.Request{Uses: []driver.Use{{Op: driver.Reset}}, Times: 1}
	b := driver.Batch{Version: storage.NewVersion(), Keys: []string{absent}, Requests: []driver.Request{reset}}
	store.Run(ctx, &b)
	return b.Err == nil
}

func (o *opened) redis(address string) error {
	options, err := goredis.ParseURL(address)
	if err != nil {
		return unparsed(err)
	}
	options.ContextTimeoutEnabled = true
	options.DialerRetries = 1 // the limiter tries again by itself
	quietRedis()
	client := goredis.NewClient(options)
	o.close = func() { _ = client.Close() }
	o.prepare = func(ctx context.Context) error { return client.Ping(ctx).Err() }
	o.Store, err = redis.New(client, redis.Options{})
	return err
}

// quietRedis keeps go-redis from printing each connection that fails, beside the
// errors that tell it here. Its logger is one for the whole process.
var quietRedis = sync.OnceFunc(func() { goredis.SetLogger(silence{}) })

type silence struct{}

// Printf implements the logger of go-redis.
func (silence) Printf(context.Context, string, ...any) {}

// oneLine is the text of an error on one line.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
