// The test promises that each fault happens once, at the planned exchange, and that the server gets the request
// exactly if Kind.Applied reports so. The tests of storage/redis promise this for Redis.
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

// The test increments a sequence three times, with each kind of fault the second time.
func TestFaultsOfPostgres(t *testing.T) {
	server := shared.Postgres(t)
	for _, kind := range faultproxy.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			p := faultproxy.Postgres(t, server.Addr())
			direct, client := connect(t, server.DSN()), connect(t, servers.PostgresDSN(p.Addr()))
			for _, statement := range []string{"DROP SEQUENCE IF EXISTS numbers", "CREATE SEQUENCE numbers"} {
				_, err := direct.Exec(t.Context(), statement)
				require.NoError(t, err)
			}
			increment := func(timeout time.Duration) error {
				if client.IsClosed() {
					client = connect(t, servers.PostgresDSN(p.Addr()))
				}
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				_, err := client.Exec(ctx, "SELECT nextval($1::text)", "numbers")
				return err
			}
			requireValue := func(want int) {
				var got int
				require.NoError(t, direct.QueryRow(t.Context(), "SELECT last_value FROM numbers").Scan(&got))
				require.Equal(t, want, got)
			}
			p.Only(func(request []byte) bool { return bytes.Contains(request, []byte("nextval")) })
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
