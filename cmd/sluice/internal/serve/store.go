package serve

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/redis"
)

// opened is a store. It may not be connected yet.
type opened struct {
	storage.Store
	address string                      // redacted
	prepare func(context.Context) error // connects to the store and creates its table
	close   func()
}

// checkStore validates the address of a store without opening it. It refuses addresses whose
// password another parser would take for a host, a database name or a parameter, which errors show.
func checkStore(address string) error {
	scheme, rest, _ := strings.Cut(address, ":")
	authority, path, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
	path, _, _ = strings.Cut(path, "?")
	_, host, _ := strings.Cut(authority, "@")
	host, _, _ = strings.Cut(host, "?")
	switch {
	case scheme == "memory" && rest != "":
		return fmt.Errorf("%s: the store memory: takes no name; want memory:", redacted(address))
	case scheme == "sqlite" && (rest == "" || rest == ":memory:"):
		return fmt.Errorf("%s: want a file name, such as sqlite:limits.db", address)
	case scheme == "sqlite" && (strings.HasPrefix(rest, "//") || strings.Contains(rest, "?")):
		return fmt.Errorf("%s: want a file name without parameters, such as sqlite:limits.db or sqlite:/var/lib/limits.db", address)
	case scheme == "sqlite" && !hasSQLite:
		return fmt.Errorf("%s: this program was built with CGO_ENABLED=0, so it has no SQLite; build it with CGO_ENABLED=1 and a C compiler, or use another store", address)
	case scheme == "memory", scheme == "sqlite":
	case !slices.Contains([]string{"postgres", "postgresql", "redis", "rediss"}, scheme) || !strings.HasPrefix(rest, "//"):
		return fmt.Errorf("%s: want memory:, sqlite:FILE, postgres://... or redis://...", redacted(address))
	case strings.Contains(path, "@"), strings.Contains(host, "@") && strings.HasPrefix(scheme, "postgres"): // the parser for redis uses the last @
		return fmt.Errorf("%s://...: the address has more than one @; in a password, write / as %%2F and @ as %%40", scheme)
	case strings.Contains(path, ";"):
		return fmt.Errorf("%s://...: the name has a semicolon; write parameters after a ? with & between, and a semicolon in a name as %%3B", scheme)
	}
	return nil
}

// newStore returns the store of an address. It does not connect.
func newStore(options Options) (*opened, error) {
	address := options.Store
	if err := checkStore(address); err != nil {
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

func (o *opened) postgres(address string, noFunctions bool) error {
	pool, err := pgxpool.New(context.Background(), address)
	if err != nil {
		return withoutAddress(err)
	}
	o.close = func() {
		closed := make(chan struct{})
		go func() {
			pool.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(closeTime):
		}
	}
	store, err := postgres.New(pool, postgres.Options{NoFunctions: noFunctions})
	o.Store = store
	o.prepare = store.Migrate
	return err
}

// closeTime is how long the server waits at its end for connections to PostgreSQL. If PostgreSQL does
// not answer, the pool waits 15 seconds for each connection that had a query.
const closeTime = time.Second

func (o *opened) redis(address string) error {
	options, err := goredis.ParseURL(address)
	if err != nil {
		return withoutAddress(err)
	}
	options.ContextTimeoutEnabled = true
	options.DialerRetries = 1 // the limiter tries again by itself
	disableRedisLog()
	client := goredis.NewClient(options)
	o.close = func() { _ = client.Close() }
	store, err := redis.New(client, redis.Options{})
	o.Store = store
	o.prepare = func(ctx context.Context) error { // the user of the client may have no right to PING
		_, _, err := store.Load(ctx, "probe")
		return err
	}
	return err
}

// disableRedisLog keeps go-redis from printing each connection that fails; the server logs these
// errors too. The log of go-redis is one for the whole process.
var disableRedisLog = sync.OnceFunc(logging.Disable)

// redacted returns an address without its secrets. It hides all parameters, because an unknown one
// may be a secret. If it cannot tell which parts are secret, it returns only the scheme.
func redacted(address string) string {
	scheme, rest, _ := strings.Cut(address, ":")
	switch {
	case scheme == "sqlite":
		return address
	case !strings.HasPrefix(rest, "//") && strings.ContainsAny(address, "@="):
		return "..."
	case !strings.HasPrefix(rest, "//"):
		return address // without a place for a secret
	}
	u, err := url.Parse(address)
	if err != nil || u.Fragment != "" || strings.Contains(u.EscapedPath()+u.RawQuery, "@") || strings.Contains(u.EscapedPath(), ";") {
		return scheme + "://..." // a password may contain the #, / or ?, or come after the ;
	}
	if u.RawQuery != "" {
		u.RawQuery = "xxxxx" // as Redacted hides the password
	}
	return u.Redacted()
}

// withoutAddress returns the error of an invalid address without any part of the address, which
// may contain a password.
func withoutAddress(err error) error {
	var bad *url.Error
	var config *pgconn.ParseConfigError
	switch {
	case errors.As(err, &config):
		text := err.Error()
		return errors.New("invalid address: " + text[strings.LastIndex(text, "`: ")+len("`: "):])
	case errors.As(err, &bad):
		return errors.New(unquoted(bad.Err.Error()))
	}
	return err
}

// oneLine returns the text of an error on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
