// The tests promise that each fault happens once, at the planned exchange, and that the server gets the
// request exactly if Kind.Applied reports so.
package faultproxy_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/servers"
)

var shared servers.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m, servers.PostgresPrograms)) }

const (
	longTimeout  = 20 * time.Second       // no reply takes so long
	shortTimeout = 500 * time.Millisecond // if no reply comes; enough to send a request on a busy machine
)

func TestFaultsOfRedis(t *testing.T) {
	server := shared.Redis(t)
	testFaults(t, "incr", func(t *testing.T) (*faultproxy.Proxy, counter) {
		p := faultproxy.Redis(t, server.Addr())
		client := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
		direct := redis.NewClient(&redis.Options{Addr: server.Addr()})
		t.Cleanup(func() { client.Close(); direct.Close() })
		return p, counter{
			increment: func(ctx context.Context) error { return client.Incr(ctx, t.Name()).Err() },
			value:     func() (int, error) { return direct.Get(context.Background(), t.Name()).Int() },
		}
	})
}

func TestFaultsOfPostgres(t *testing.T) {
	server := shared.Postgres(t)
	testFaults(t, "nextval", func(t *testing.T) (*faultproxy.Proxy, counter) {
		p := faultproxy.Postgres(t, server.Addr())
		direct := connect(t, server.DSN())
		client := connect(t, servers.PostgresDSN(p.Addr()))
		for _, statement := range []string{"DROP SEQUENCE IF EXISTS numbers", "CREATE SEQUENCE numbers"} {
			_, err := direct.Exec(t.Context(), statement)
			require.NoError(t, err)
		}
		return p, counter{
			increment: func(ctx context.Context) error {
				if client.IsClosed() {
					client = connect(t, servers.PostgresDSN(p.Addr()))
				}
				_, err := client.Exec(ctx, "SELECT nextval($1::text)", "numbers")
				return err
			},
			value: func() (n int, err error) {
				err = direct.QueryRow(context.Background(), "SELECT last_value FROM numbers").Scan(&n)
				return n, err
			},
		}
	})
}

// counter is a number on a server.
type counter struct {
	increment func(context.Context) error // through the proxy
	value     func() (int, error)
}

// testFaults increments a counter three times, with each kind of fault the second time. A request that has the
// text command increments.
func testFaults(t *testing.T, command string, open func(*testing.T) (*faultproxy.Proxy, counter)) {
	for _, kind := range faultproxy.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			p, c := open(t)
			increment := func(timeout time.Duration) error {
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				return c.increment(ctx)
			}
			requireValue := func(want int) {
				got, err := c.value()
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			p.Only(func(request []byte) bool { return bytes.Contains(request, []byte(command)) })
			p.Plan(faultproxy.Fault{At: 2, Kind: kind})
			require.NoError(t, increment(longTimeout))
			require.Zero(t, p.Hits())

			timeout := longTimeout
			if kind.Hangs() {
				timeout = shortTimeout
			}
			require.Error(t, increment(timeout))
			require.Eventually(t, func() bool { p.Release(); return p.Hits() > 0 }, longTimeout, time.Millisecond)
			require.Equal(t, 1, p.Hits())
			applied := map[bool]int{true: 2, false: 1}[kind.Applied()]
			requireValue(applied)

			require.NoError(t, increment(longTimeout))
			requireValue(applied + 1)
			require.Equal(t, 3, p.Exchanges())
		})
	}
}

// connect returns a connection that does not cancel a late statement. It would do so on a second connection.
func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	dial, dialed := config.DialFunc, false
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialed {
			return nil, errors.New("the test allows one connection")
		}
		dialed = true
		return dial(ctx, network, addr)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
