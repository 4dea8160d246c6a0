package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

// failingDB returns an error from all calls.
type failingDB struct{ err error }

func (b failingDB) Begin(context.Context) (pgx.Tx, error) { return nil, b.err }

func (b failingDB) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, b.err
}

func (b failingDB) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, b.err }

// The server has undone a statement that it reports an error for. An error that may be a pooler's
// leaves the outcome unknown, and so does the end of the server.
func TestErrorCodesAreClassified(t *testing.T) {
	for _, c := range []struct {
		severity string
		codes    []string
		kinds    []error
	}{
		{"PANIC", []string{"53100"}, []error{storage.ErrUnavailable}},
		{"FATAL", []string{"08P01", "08006", "08007", "58000", "XX000", "", "5", "40003"}, []error{storage.ErrUnavailable}},
		{"FATAL", []string{"53300", "54000", "57P01", "57P03", "25006"}, []error{storage.ErrUnavailable, storage.ErrNotApplied}},
		{"FATAL", []string{"40001", "40P01", "55P03", "57014", "25P04"}, []error{storage.ErrContended, storage.ErrNotApplied}},
		{"FATAL", []string{"42P01", "42501", "23514"}, []error{storage.ErrNotApplied}},
	} {
		for _, code := range c.codes {
			t.Run(fmt.Sprintf("%q", code), func(t *testing.T) {
				s := storeOn(t, failingDB{&pgconn.PgError{Severity: "in any language", SeverityUnlocalized: c.severity, Code: code, Message: "no"}}, postgres.Options{})
				_, _, err := s.CompareAndSwap(t.Context(), creating("a")...)
				requireKinds(t, err, c.kinds...)
				require.False(t, strings.HasSuffix(err.Error(), "; "), "a remedy that is empty")
			})
		}
	}
}

func TestCallsWithoutKeysNeedNoServer(t *testing.T) {
	s := storeOn(t, failingDB{errors.New("unused")}, postgres.Options{})
	_, _, err := s.Load(t.Context())
	require.NoError(t, err)
	_, swapped, err := s.CompareAndSwap(t.Context())
	require.NoError(t, err)
	require.True(t, swapped)
}

// A swap that may need a savepoint cannot begin one.
func TestTransactionThatHasFailedAppliesNothing(t *testing.T) {
	tx := begin(t, newPool(t, ""))
	_, err := tx.Exec(t.Context(), "SELECT 1/0")
	require.Error(t, err)
	for _, keys := range [][]string{{"a"}, {"a", "b"}} {
		_, _, err := storeIn(t, tx, "any").CompareAndSwap(t.Context(), creating(keys...)...)
		requireKinds(t, err, storage.ErrNotApplied)
		require.ErrorContains(t, err, "the transaction has failed")
	}
}

// The connection is open, but a pooler between it and the server may have sent the statement on.
func TestErrorThatMayBeAPoolersLeavesTheOutcomeUnknown(t *testing.T) {
	p := newPool(t, "")
	schema, _ := newObstacle(t, p, newTrigger("BEFORE INSERT", "RAISE EXCEPTION USING ERRCODE = 'XX000'"))
	s := storeOn(t, p, postgres.Options{Schema: schema, Table: "t"})
	_, _, err := s.CompareAndSwap(t.Context(), creating("a")...)
	requireKinds(t, err, storage.ErrUnavailable)
	b := requestEach("a")
	s.Run(t.Context(), b)
	requireKinds(t, b.Err, storage.ErrUnavailable)
}

// Another goroutine uses the connection, and then closes it. So pgx sends nothing.
func TestConnectionThatCannotBeUsedSendsNothing(t *testing.T) {
	pooled, err := newPool(t, "").Acquire(t.Context())
	require.NoError(t, err)
	conn := pooled.Hijack()
	s := open(t, conn, postgres.Options{Table: fmt.Sprint("table_", tables.Add(1))})
	for _, end := range []func(){
		func() {
			_, err := conn.Query(t.Context(), "SELECT 1")
			require.NoError(t, err)
		},
		func() { require.NoError(t, conn.Close(t.Context())) },
	} {
		end()
		_, _, err := s.CompareAndSwap(t.Context(), creating("a")...)
		requireKinds(t, err, storage.ErrUnavailable, storage.ErrNotApplied)
	}
}

// The client cannot know whether the server got the swap, which is all or nothing.
func TestLostConnectionLeavesTheOutcomeUnknown(t *testing.T) {
	direct, table := newStore(t, newPool(t, ""))
	for _, kind := range faultproxy.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			through, proxy := newCountedPool(t, "&default_query_exec_mode=exec")
			t.Cleanup(proxy.Disconnect)
			s := storeOn(t, through, postgres.Options{Table: table})
			proxy.Plan(faultproxy.Fault{At: 1, Kind: kind})
			keys := []string{kind.String() + " b", kind.String() + " a"}
			timeout := longTimeout
			if kind.Hangs() {
				timeout = time.Second // long enough to send the swap on a busy machine
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, swapped, err := s.CompareAndSwap(ctx, creating(keys...)...)
			requireKinds(t, err, storage.ErrUnavailable)
			require.False(t, swapped)
			require.Eventually(t, func() bool { proxy.Release(); return proxy.Hits() == 1 }, longTimeout, time.Millisecond)
			if kind != faultproxy.LateRequest { // pgx may cancel it on another connection
				require.Len(t, existing(t, direct, keys...), map[bool]int{true: 2, false: 0}[kind.Applied()])
			}
		})
	}
}

// After a failover, the pool may have connections to the former primary, which is a replica now. A replica refuses to write, and
// does not even read an unlogged table.
func TestConnectionToAReplicaIsReplaced(t *testing.T) {
	server := servers.Postgres(t)
	p := newPoolAt(t, server.DSN()+"&pool_max_conns=1")
	missing := storeOn(t, p, postgres.Options{Table: "missing"})
	tables := []*postgres.Store{open(t, p, postgres.Options{}), open(t, p, postgres.Options{Table: "unlogged", Unlogged: true})}
	exec(t, p, "COPY (SELECT) TO PROGRAM 'touch standby.signal'") // in the directory of the data
	server.Stop()
	require.NoError(t, server.Start())
	p.Reset()
	requireReplaced := func(call func() error) {
		const pid = "SELECT pg_backend_pid()"
		before := selected[int](t, p, pid)
		requireKinds(t, call(), storage.ErrUnavailable, storage.ErrNotApplied)
		require.NotEqual(t, before, selected[int](t, p, pid))
	}
	for _, s := range tables {
		requireReplaced(func() error { b := requestEach("a"); s.Run(t.Context(), b); return b.Err })
	}
	requireReplaced(func() error { return missing.Migrate(t.Context()) })
	exec(t, p, "SELECT pg_promote()")
	require.NoError(t, missing.Migrate(t.Context()))
	for _, s := range append(tables, missing) {
		requireLimits(t, s)
	}
}

// These errors are neither contention nor an outage, because a retry does not help.
func TestErrorsHaveTheRemedy(t *testing.T) {
	closed := newPool(t, "")
	closed.Close()
	exec(t, newPool(t, ""), "CREATE TABLE former (key bytea NOT NULL PRIMARY KEY, version bigint NOT NULL, state bytea NOT NULL, expires_at timestamptz NOT NULL)")
	exec(t, newPool(t, ""), "CREATE TABLE keyless AS SELECT *, expires_at AS purge_at FROM former")
	const simple = "&standard_conforming_strings=off&default_query_exec_mode=simple_protocol"
	const remedy = "does not exist (SQLSTATE 42703); set Options.Table to another name, use another database, or drop this table if it holds only limits; then call Store.Migrate"
	for name, c := range map[string]struct {
		db                   *pgxpool.Pool
		table, migrate, swap string // the errors
	}{
		"a closed pool":                    {closed, "any", "closed pool", "closed pool"},
		"a missing table":                  {newPool(t, ""), "missing", "", "(SQLSTATE 42P01); call Store.Migrate first"},
		"a table without a primary key":    {newPool(t, ""), "keyless", "", "(SQLSTATE 42P10); add the missing primary key"},
		"a statement that pgx refuses":     {newPool(t, simple), "former", "standard_conforming_strings", "standard_conforming_strings"},
		"a table without a column of ours": {newPool(t, ""), "former", `column "purge_at" ` + remedy, remedy},
	} {
		t.Run(name, func(t *testing.T) {
			dbs := []postgres.DB{c.db}
			if name != "a closed pool" {
				dbs = append(dbs, begin(t, c.db))
			}
			for _, db := range dbs {
				s := storeOn(t, db, postgres.Options{Table: c.table, NoFunctions: true})
				if c.migrate != "" {
					err := s.Migrate(t.Context())
					requireKinds(t, err, storage.ErrNotApplied)
					require.ErrorContains(t, err, c.migrate)
				}
				_, _, err := s.CompareAndSwap(t.Context(), creating("a")...)
				requireKinds(t, err, storage.ErrNotApplied)
				require.ErrorContains(t, err, c.swap)
			}
		})
	}
}

// A version in the reply is no bigint. The statement may have been applied.
func TestUnreadableReplyLeavesTheOutcomeUnknown(t *testing.T) {
	p := newPool(t, "")
	_, table := newStore(t, p)
	exec(t, p, "ALTER TABLE "+table+" ALTER version TYPE numeric")
	exec(t, p, "INSERT INTO "+table+" VALUES ('large', 1e30, '', 'infinity', 'infinity')")
	for i, db := range []postgres.DB{p, begin(t, p)} {
		s := storeOn(t, db, postgres.Options{Table: table})
		_, _, err := s.Load(t.Context(), "large")
		requireKinds(t, err)
		other := fmt.Sprint("other ", i)
		_, _, err = s.CompareAndSwap(t.Context(), creating("large", other)...)
		requireKinds(t, err)
		require.Empty(t, existing(t, s, other))
	}
}

// By these errors the limiter knows that no call can reach the server. They end the call, and not its deadline.
func TestServerThatCannotBeReachedIsADialError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close()) // from now on the address refuses connections
	for name, dsn := range map[string]string{
		"TCP":         "postgres://limiter@" + l.Addr().String() + "/limits",
		"Unix socket": "user=limiter dbname=limits host=" + t.TempDir(),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began, b := time.Now(), requestEach("ann")
			storeOn(t, newPoolAt(t, dsn), postgres.Options{}).Run(ctx, b)
			requireKinds(t, b.Err, storage.ErrUnavailable, storage.ErrNotApplied)
			var op *net.OpError
			require.ErrorAs(t, b.Err, &op)
			require.True(t, op.Op == "dial" && !op.Timeout(), op)
			require.Less(t, time.Since(began), 30*time.Second)
		})
	}
}

// A round trip in a goroutine goes on without its caller, but it must not send what its caller knows as not applied. The next call
// gets the connection after it.
func TestCallThatGotNoConnectionSendsNothing(t *testing.T) {
	p := newPool(t, "&pool_max_conns=1")
	s, _ := newStore(t, p)
	busy := begin(t, p)
	for i, timeout := range []time.Duration{100 * time.Millisecond, 1500 * time.Millisecond} { // with and without a goroutine
		b := requestEach("b")
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		var group sync.WaitGroup
		group.Go(func() { s.Run(ctx, b) })
		_, _, err := s.CompareAndSwap(ctx, creating("a")...)
		group.Wait()
		for _, err := range []error{err, b.Err} {
			requireKinds(t, err, storage.ErrUnavailable, storage.ErrNotApplied)
		}
		if i == 1 {
			require.ErrorContains(t, b.Err, "from the pool")
		}
	}
	require.NoError(t, busy.Rollback(t.Context()))
	require.Empty(t, existing(t, s, "a", "b"))
}

// A server that refuses a connection says why. Every error contains that. The limiter keeps it.
func TestErrorsHaveTheReasonWhyTheServerRefusesConnections(t *testing.T) {
	exec(t, newPool(t, ""), "CREATE ROLE crowd LOGIN CONNECTION LIMIT 0")
	for reason, change := range map[string][2]string{
		`role "nobody" does not exist`:          {"sluice@", "nobody@"},
		`too many connections for role "crowd"`: {"sluice@", "crowd@"},
		`database "missing" does not exist`:     {"/sluice?", "/missing?"},
		"server refused TLS connection":         {"sslmode=disable", "sslmode=require"},
	} {
		t.Run(reason, func(t *testing.T) {
			s := storeOn(t, newPoolAt(t, strings.Replace(shared.Postgres(t).DSN(), change[0], change[1], 1)), postgres.Options{})
			require.ErrorContains(t, s.Migrate(t.Context()), reason)
			b := requestEach("k")
			s.Run(t.Context(), b)
			require.ErrorIs(t, b.Err, storage.ErrUnavailable)
			require.ErrorContains(t, b.Err, reason)
		})
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for _, db := range []postgres.DB{nil, (*pgxpool.Pool)(nil)} {
		_, err := postgres.New(db, postgres.Options{})
		require.ErrorContains(t, err, "must not be nil")
	}
	for _, o := range []postgres.Options{{Table: "a\x00b"}, {Table: "a$sluice_one$; DROP TABLE users; --"}, {Schema: "a\x00b"}, {Table: strings.Repeat("x", 64)}} {
		_, err := postgres.New(&pgxpool.Pool{}, o)
		require.ErrorContains(t, err, "at most 63 bytes and must not contain NUL")
	}
}
