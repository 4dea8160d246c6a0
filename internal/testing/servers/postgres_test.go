package servers

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestPostgresTakesSettingsAndKeepsCommits(t *testing.T) {
	s := Postgres(t, "max_connections = 7")
	execute(t, connect(t, s.DSN()), "CREATE TABLE kept AS SELECT 1 AS n")
	for _, end := range []func(){s.Kill, s.Stop} {
		end()
		require.NoError(t, s.Start())
		var n int
		var setting string
		require.NoError(t, connect(t, s.DSN()).QueryRow(t.Context(), "SELECT n, current_setting('max_connections') FROM kept").Scan(&n, &setting))
		require.Equal(t, 1, n)
		require.Equal(t, "7", setting)
	}
}

// The process that serves a connection is a child of the started process.
func TestPausedPostgresDoesNotAnswerOpenConnections(t *testing.T) {
	s := shared.Postgres(t)
	conn := connect(t, s.DSN())
	answered := make(chan error, 1)
	s.Pause()
	go func() {
		_, err := conn.Exec(context.Background(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatal("answered while paused", err)
	case <-time.After(50 * time.Millisecond):
	}
	s.Resume()
	require.NoError(t, <-answered)
}

// In session mode the second client would wait until the first disconnects.
func TestPgBouncerUsesTransactionMode(t *testing.T) {
	s := PgBouncer(t, shared.Postgres(t), "default_pool_size = 1")
	first, second := connect(t, s.DSN()), connect(t, s.DSN())
	execute(t, first, "SELECT 1")
	execute(t, second, "SELECT 1")
	execute(t, first, "SELECT 1")

	s.Kill()
	require.NoError(t, s.Start())
	execute(t, connect(t, s.DSN()), "SELECT 1")
}

func TestSharedServersAreStartedOnce(t *testing.T) {
	require.Same(t, shared.Postgres(t), shared.Postgres(t))
	require.Same(t, shared.Sentinel(t), shared.Sentinel(t))

	execute(t, connect(t, shared.PgBouncer(t).DSN()), "CREATE TABLE seen_through_both (n int)")
	execute(t, connect(t, shared.Postgres(t).DSN()), "DROP TABLE seen_through_both")

	var own Shared
	addr := own.Redis(t).Addr()
	require.NoError(t, dial(addr))
	own.Close()
	require.Error(t, dial(addr))
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // PgBouncer in transaction mode does not support prepared statements
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}
