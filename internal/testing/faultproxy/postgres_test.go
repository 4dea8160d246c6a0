package faultproxy_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/servers"
)

func TestFaultsOfPostgres(t *testing.T) {
	server := shared.Postgres(t)
	direct := connect(t, server.DSN(), pgx.QueryExecModeExec)
	modes := []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec}
	for _, mode := range modes {
		for _, kind := range faultproxy.Kinds() {
			t.Run(kind.String()+", "+mode.String(), func(t *testing.T) {
				table := newTable(t, direct)
				p := faultproxy.Postgres(t, server.Addr())
				conn := connect(t, servers.PostgresDSN(p.Addr()), mode, dialOnce)
				p.Plan(faultproxy.Fault{At: 2, Kind: kind})

				require.NoError(t, insert(conn, table, longTimeout))
				require.Error(t, insert(conn, table, timeout(kind)))
				require.Eventually(t, func() bool { p.Release(); return len(p.Hits()) > 0 }, longTimeout, time.Millisecond)
				requireHit(t, p, kind)
				applied := map[bool]int{true: 2, false: 1}
				require.Equal(t, applied[kind.Applied()], rows(t, direct, table))

				conn = connect(t, servers.PostgresDSN(p.Addr()), mode)
				require.NoError(t, insert(conn, table, longTimeout))
				require.Equal(t, 4, p.Exchanges(), "three statements and the start of a connection")
			})
		}
	}
}

// The start of a connection is an exchange.
func TestFaultsOfConnecting(t *testing.T) {
	server := shared.Postgres(t)
	for _, kind := range faultproxy.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			p := faultproxy.Postgres(t, server.Addr())
			p.Plan(faultproxy.Fault{At: 1, Kind: kind})
			ctx, cancel := context.WithTimeout(t.Context(), timeout(kind))
			defer cancel()
			_, err := pgx.Connect(ctx, servers.PostgresDSN(p.Addr()))
			require.Error(t, err)
			connect(t, servers.PostgresDSN(p.Addr()), pgx.QueryExecModeExec)
		})
	}
}

// A client with sslmode=prefer requests TLS first. The server refuses it.
func TestPostgresWithoutFaults(t *testing.T) {
	p := faultproxy.Postgres(t, shared.Postgres(t).Addr())
	dsn := strings.Replace(servers.PostgresDSN(p.Addr()), "disable", "prefer", 1)
	conn := connect(t, dsn, pgx.QueryExecModeCacheStatement)
	p.Plan()
	var text string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT repeat($1, 1000000)", "x").Scan(&text))
	require.Len(t, text, 1_000_000)
	require.Equal(t, 2, p.Exchanges(), "to prepare and to execute")

	var batch pgx.Batch
	for range 3 {
		batch.Queue("SELECT 1")
	}
	require.NoError(t, conn.SendBatch(t.Context(), &batch).Close())
	require.Equal(t, 4, p.Exchanges(), "to prepare and to execute")
	_, err := conn.Exec(t.Context(), "SELECT nonsense")
	require.ErrorContains(t, err, "nonsense")
}

// A client sends a cancellation on another connection.
func TestCancellationIsForwarded(t *testing.T) {
	p := faultproxy.Postgres(t, shared.Postgres(t).Addr())
	conn := connect(t, servers.PostgresDSN(p.Addr()), pgx.QueryExecModeExec)
	p.Plan()
	cancelled := make(chan error)
	go func() {
		_, err := conn.Exec(context.Background(), "SELECT pg_sleep(60)")
		cancelled <- err
	}()
	require.Eventually(t, func() bool { return p.Exchanges() == 1 }, longTimeout, time.Millisecond)
	for {
		require.NoError(t, conn.PgConn().CancelRequest(t.Context()))
		select {
		case err := <-cancelled:
			require.ErrorContains(t, err, "canceling statement due to user request")
			require.Equal(t, 1, p.Exchanges())
			return
		case <-time.After(shortTimeout): // the cancellation came before the statement had begun
		}
	}
}

// dialOnce keeps pgx from cancelling a late statement, which it does on a second connection.
func dialOnce(config *pgx.ConnConfig) {
	var dialed atomic.Bool
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, errors.New("the test allows one connection")
		}
		return dial(ctx, network, addr)
	}
}

func connect(t *testing.T, dsn string, mode pgx.QueryExecMode, configure ...func(*pgx.ConnConfig)) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	config.DefaultQueryExecMode = mode
	for _, set := range configure {
		set(config)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func newTable(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	table := pgx.Identifier{t.Name()}.Sanitize()
	_, err := conn.Exec(t.Context(), "CREATE TABLE "+table+" (n int)")
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), "DROP TABLE "+table) })
	return table
}

func insert(conn *pgx.Conn, table string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err := conn.Exec(ctx, "INSERT INTO "+table+" VALUES ($1)", 1)
	return err
}

func rows(t *testing.T, conn *pgx.Conn, table string) (n int) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}
