package serve

import (
	"database/sql"
	"go/parser"
	"go/token"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/storage/postgres"
)

// TestErrorsOfStores: an error has no password, and a remedy if the store cannot be reached.
func TestErrorsOfStores(t *testing.T) {
	skipIfShort(t)
	gone, dir := unusedAddress(t), t.TempDir()
	cause := regexp.MustCompile(`the store is unavailable: .*?(; start|; make|$)`) // of the client library
	tracetest.Answers(t, "testdata/store_errors.txt", func(address string) string {
		text := errorOfNew(t, strings.NewReplacer("GONE", gone, "DIR", dir).Replace(address))
		require.NotContains(t, text, "secret")
		return strings.NewReplacer(gone, "GONE", dir, "DIR").Replace(cause.ReplaceAllString(text, "the store is unavailable: CAUSE$1"))
	})
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	dsn := servers.Postgres(t).DSN()
	for address, remedy := range map[string]string{
		"redis://no-host.invalid":                                 "; start the store, or check its address",
		"postgres://u@no-host.invalid/db":                         "; start the store, or check its address",
		"redis://" + silent.Addr().String() + "?read_timeout=1ms": "; start the store, or check its address",
		"redis://nobody:secret@" + servers.Redis(t).Addr():        "; check the user, password, database and parameters of the address",
		strings.Replace(dsn, "disable", "require", 1):             "; check the user, password, database and parameters of the address",
		strings.Replace(dsn, "/sluice?", "/missing?", 1):          "; check the user, password, database and parameters of the address",
	} {
		text := errorOfNew(t, address)
		require.NotContains(t, text, "secret")
		require.True(t, strings.HasSuffix(text, remedy), text)
	}
}

// errorOfNew returns the error of New for a store that it cannot use.
func errorOfNew(t *testing.T, address string) string {
	t.Helper()
	_, err := newTestServer(t, oneByIP, on(address))
	require.Error(t, err)
	text, ok := strings.CutPrefix(err.Error(), "--store ")
	require.True(t, ok, err)
	return text
}

// TestCloseDoesNotWaitForASilentStore: PostgreSQL does not confirm the end of a connection with a query.
func TestCloseDoesNotWaitForASilentStore(t *testing.T) {
	server := servers.Postgres(t)
	w := startTestServer(t, oneByIP, on(server.DSN()), func(o *Options) { o.DecisionTimeout = 100 * time.Millisecond })
	server.Pause()
	t.Cleanup(server.Resume)
	require.Equal(t, http.StatusServiceUnavailable, w.decide("allow", `{"key":"192.0.2.1"}`).StatusCode)
	began := time.Now()
	w.Close()
	require.Less(t, time.Since(began), cutGrace+stores.CloseTime+slack)
}

// TestDatabaseIsPrivate: a file that exists keeps its mode.
func TestDatabaseIsPrivate(t *testing.T) {
	dir := t.TempDir()
	mode := func(name string) os.FileMode {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	w := startTestServer(t, oneByIP, on("sqlite:"+filepath.Join(dir, "limits.db")))
	for _, name := range []string{"limits.db", "limits.db-wal", "limits.db-shm"} {
		require.Equal(t, os.FileMode(0o600), mode(name), name)
	}
	w.Close()
	require.NoError(t, os.Chmod(filepath.Join(dir, "limits.db"), 0o640))
	startTestServer(t, oneByIP, on("sqlite:"+filepath.Join(dir, "limits.db")))
	require.Equal(t, os.FileMode(0o640), mode("limits.db"))
}

// The bodies of /readyz with and without a store.
const (
	readyWith    = `{"status":"ok","store":"ok"}` + "\n"
	readyWithout = `{"status":"ok","store":"failed"}` + "\n"
)

// TestAResetThroughTheServiceReachesTheProxy: the proxy denies until its cached denial expires.
// The service is current at once.
func TestAResetThroughTheServiceReachesTheProxy(t *testing.T) {
	for ttl, allowed := range map[time.Duration]int{-1: 1, time.Hour: 0} {
		w := startTestServer(t, oneByIP, withUpstream(t, hello), on("sqlite:"+filepath.Join(t.TempDir(), "limits.db")), func(o *Options) { o.DenialCacheTTL = ttl })
		require.Equal(t, 3, w.allowed(4))
		require.Contains(t, w.decide("allow", `{"key":"127.0.0.1"}`).body, `"allowed":false`)
		require.Equal(t, http.StatusNoContent, w.decide("reset", `{"key":"127.0.0.1"}`).StatusCode)
		require.Contains(t, w.decide("allow", `{"key":"127.0.0.1"}`).body, `"allowed":true`, ttl)
		require.Equal(t, allowed, w.allowed(1), ttl)
	}
}

const (
	secretKey = "TOPSECRETKEY"
	byKey     = `
rules:
  - name: key
    policy: gcra 1000/h burst=1000
    by: header:X-Api-Key
`
	refusingFunction = "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN BODY END $$; "
	refusingTrigger  = "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON sluice_states FOR EACH ROW EXECUTE FUNCTION refuse()"
)

// storeFaults are commands that break a store in use. The log then has a text. mends has the command that repairs the store,
// unless only some decisions fail, or an operator would replace the store.
var storeFaults = map[string][]struct{ name, breaks, mends, logged string }{
	"redis": {
		{"full", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM"},
		{"replica", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY"},
		{"no scripts", "ACL SETUSER default -eval -evalsha", "ACL SETUSER default +@all", "NOPERM"},
		{"no writes", "ACL SETUSER default -psetex -set", "ACL SETUSER default +@all", "executing the script"},
		{"no deletes", "ACL SETUSER default -del", "", "applied in part"},
		{"other keys", "ACL SETUSER default resetkeys ~other", "ACL SETUSER default ~*", "NOPERM"},
		{"list", "EVAL\tfor _, key in ipairs(redis.call('KEYS', '*')) do redis.call('DEL', key) redis.call('LPUSH', key, 'x') end\t0", "", "WRONGTYPE"},
		{"no record", "EVAL\tfor _, key in ipairs(redis.call('KEYS', '*')) do redis.call('SET', key, 'x') end\t0", "", "is not a record"},
		{"other state", "EVAL\tfor _, key in ipairs(redis.call('KEYS', '*')) do redis.call('SET', key, '12345678other state') end\t0", "", "not a state"},
	},
	"postgres": {
		{"row", "BEGIN; SELECT FROM sluice_states WHERE position('" + secretKey + "' in encode(key, 'escape')) > 0 FOR UPDATE", "", "another transaction"},
		{"table", "BEGIN; LOCK sluice_states", "ROLLBACK", "55P03"},
		{"dropped", "ALTER TABLE sluice_states RENAME TO gone", "ALTER TABLE gone RENAME TO sluice_states", "42P01"},
		{"constraint", "ALTER TABLE sluice_states ADD CONSTRAINT none CHECK (key = '') NOT VALID", "ALTER TABLE sluice_states DROP CONSTRAINT none", "23514"},
		{"trigger", strings.Replace(refusingFunction, "BODY", "RAISE 'not % %', encode(NEW.key, 'escape'), encode(NEW.key, 'hex');", 1) + refusingTrigger, "DROP TRIGGER refuse ON sluice_states", "P0001"},
		{"conversion", strings.Replace(refusingFunction, "BODY", "PERFORM encode(NEW.key, 'escape')::int; RETURN NEW;", 1) + refusingTrigger, "DROP TRIGGER refuse ON sluice_states", "22P02"},
		{"text", "ALTER TABLE sluice_states ADD CONSTRAINT none CHECK (convert_from(key || '\\xff', 'UTF8') = '') NOT VALID", "ALTER TABLE sluice_states DROP CONSTRAINT none", "22021"},
		{"no updates", strings.Replace(refusingFunction, "BODY", "RAISE EXCEPTION 'no updates';", 1) + strings.Replace(refusingTrigger, "INSERT OR ", "", 1), "DROP TRIGGER refuse ON sluice_states", "P0001"},
		{"rights", "REVOKE ALL ON sluice_states FROM limiter", "GRANT ALL ON sluice_states TO limiter", "42501"},
		{"reads", "ALTER ROLE limiter SET default_transaction_read_only = on; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'limiter'",
			"ALTER ROLE limiter SET default_transaction_read_only = off; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'limiter'", "25006"},
	},
	"sqlite": {
		{"ignored", "CREATE TRIGGER refuse BEFORE INSERT ON sluice_states BEGIN SELECT RAISE(IGNORE); END", "DROP TRIGGER refuse", "was not written"},
		{"trigger", "CREATE TRIGGER refuse BEFORE INSERT ON sluice_states BEGIN SELECT RAISE(ABORT, 'not ' || NEW.key); END", "DROP TRIGGER refuse", "a trigger of the table"},
		{"no updates", "CREATE TRIGGER refuse BEFORE UPDATE ON sluice_states BEGIN SELECT RAISE(ABORT, 'no updates'); END", "DROP TRIGGER refuse", "a trigger of the table"},
		{"constraint", "ALTER TABLE sluice_states RENAME TO gone; CREATE TABLE sluice_states (key BLOB PRIMARY KEY CHECK (key = ''), version, state, expires_at, purge_at)",
			"DROP TABLE sluice_states; ALTER TABLE gone RENAME TO sluice_states", "constraint"},
		{"dropped", "ALTER TABLE sluice_states RENAME TO gone", "ALTER TABLE gone RENAME TO sluice_states", "no such table"},
		{"locked", "BEGIN EXCLUSIVE", "ROLLBACK", "locked"},
	},
}

// openStore returns the address of a new store, and a function that runs commands in it.
func openStore(t *testing.T, kind string) (address string, run func(command string)) {
	t.Helper()
	switch kind {
	case "redis":
		s := servers.Redis(t, "enable-debug-command yes")
		return "redis://" + s.Addr(), func(command string) {
			words := strings.Fields(command)
			if strings.Contains(command, "\t") {
				words = strings.Split(command, "\t")
			}
			_, err := s.Do(words...)
			require.NoError(t, err)
		}
	case "postgres":
		d := newDatabase(t)
		return d.dsn, func(command string) {
			d.exec("%s", strings.ReplaceAll(command, "limiter", d.role))
		}
	}
	file := filepath.Join(t.TempDir(), "limits.db")
	db, err := sql.Open("sqlite3", "file:"+file)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return "sqlite:" + file, func(command string) {
		_, err := db.Exec(command)
		require.NoError(t, err)
	}
}

// TestStoreFaults: while a store is broken, neither the log nor the responses have keys. If the fault concerns all decisions, the
// server is not ready and another one does not start, until the store is repaired.
func TestStoreFaults(t *testing.T) {
	short := func(o *Options) { o.DecisionTimeout = 1500 * time.Millisecond }
	for kind, faults := range storeFaults {
		for _, c := range faults {
			t.Run(kind+" "+c.name, func(t *testing.T) {
				t.Parallel() // it waits
				if kind == "sqlite" && c.name == "locked" {
					skipIfShort(t)
				}
				address, run := openStore(t, kind)
				w := startTestServer(t, byKey, withUpstream(t, hello), short, on(address))
				fetch(t, w.proxyURL("/"), "X-Api-Key", secretKey)
				require.Equal(t, http.StatusOK, w.readyNow(), w.logged.String())
				run(c.breaks)
				w.usesKeys(c.logged)
				if c.mends == "" {
					return
				}
				require.Equal(t, http.StatusServiceUnavailable, w.readyNow(), w.logged.String())
				if c.name != "dropped" { // the start may create the table
					_, err := newTestServer(t, byKey, on(address), short)
					require.ErrorContains(t, err, "--store ")
				}
				run(c.mends)
				require.Eventually(t, func() bool { return w.readyNow() == http.StatusOK }, testTimeout, 10*time.Millisecond)
				require.Eventually(t, func() bool { return w.decide("allow", `{"key":"other"}`).StatusCode == http.StatusOK }, testTimeout, 10*time.Millisecond,
					"until the circuit breaker closes")
			})
		}
	}
}

// usesKeys sends requests of several clients to both sides at the same time, until the log has a text. Then the log,
// the responses and the metrics contain no key.
func (w *testServer) usesKeys(want string) {
	w.t.Helper()
	var responses lines
	require.Eventually(w.t, func() bool {
		for _, ops := range [][]string{{"allow", "refund"}, {"allow", "reset"}} { // a reset can repair a key, so it comes later
			var all sync.WaitGroup
			for i := range 8 {
				key := secretKey + strings.Repeat("x", i%4)
				all.Go(func() { responses.Write([]byte(fetch(w.t, w.proxyURL("/"), "X-Api-Key", key).body)) })
				for _, op := range ops {
					cost := ""
					if op == "refund" {
						cost = `,"cost":1000` // the key is full then, which deletes its record
					}
					all.Go(func() { responses.Write([]byte(w.decide(op, `{"key":"`+key+`"`+cost+`}`).body)) })
				}
			}
			all.Wait()
		}
		return strings.Contains(w.logged.String(), want)
	}, testTimeout, time.Millisecond, want)
	responses.Write([]byte(fetch(w.t, w.apiURL("/metrics")).body + fetch(w.t, w.apiURL("/readyz")).body))
	for _, text := range []string{w.logged.String(), responses.String()} {
		require.NotContains(w.t, text, secretKey[:9])
		require.NotContains(w.t, text, "544f50534543") // in hexadecimal
	}
}

// packageComment returns the comment of a package of the root module.
func packageComment(t *testing.T, dir string) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../../"+dir+"/doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	return file.Doc.Text()
}

// linesOf returns the indented lines of a comment that begin with a word.
func linesOf(comment, word string) (found []string) {
	for line := range strings.Lines(comment) {
		if text, isCode := strings.CutPrefix(line, "\t"); isCode && strings.HasPrefix(text, word+" ") {
			found = append(found, strings.TrimSpace(text))
		}
	}
	return found
}

const twoRules = `
rules:
  - name: client
    policy: gcra 3/h
    by: header:X-Api-Key
  - name: all
    policy: all(fixedwindow 1000/h; tokenbucket 1000/h)
  - name: slow
    policy: movingwindow 1000/h
`

// testEverything starts a server and uses everything that needs the store.
func testEverything(t *testing.T, store string) {
	t.Helper()
	w := startTestServer(t, twoRules, withUpstream(t, hello), on(store))
	for _, want := range []int{200, 200, 200, 429} {
		require.Equal(t, want, fetch(t, w.proxyURL("/"), "X-Api-Key", "a").StatusCode)
	}
	for op, want := range map[string]int{"allow": 200, "peek": 200, "refund": 200, "charge": 200, "reset": 204} {
		a := w.decide(op, `{"key":"b"}`)
		require.Equal(t, want, a.StatusCode, a.body)
	}
	require.NoError(t, w.Reload(t.Context()))
	w.checkStore(t.Context())
	require.Equal(t, http.StatusOK, fetch(t, w.apiURL("/readyz")).StatusCode)
	for line := range strings.Lines(w.logged.String()) {
		isAboutProxies := strings.Contains(line, "no proxy is trusted")
		require.False(t, !isAboutProxies && (strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR")), line)
	}
}

func TestRedisUserNeedsOnlyTheDocumentedRights(t *testing.T) {
	server := servers.Redis(t)
	acl := linesOf(packageComment(t, "storage/redis"), "ACL")
	require.Len(t, acl, 1)
	_, err := server.Do(strings.Fields(acl[0])...)
	require.NoError(t, err)
	testEverything(t, "redis://limiter:password@"+server.Addr())
}

func TestPostgresRoleNeedsOnlyTheDocumentedRights(t *testing.T) {
	server := servers.Postgres(t)
	owner, err := pgx.Connect(t.Context(), server.DSN())
	require.NoError(t, err)
	defer owner.Close(t.Context())
	_, err = owner.Exec(t.Context(), "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; CREATE ROLE limiter LOGIN")
	require.NoError(t, err)
	table, err := postgres.New(owner, postgres.Options{})
	require.NoError(t, err)
	require.NoError(t, table.Migrate(t.Context()))
	grants := linesOf(packageComment(t, "storage/postgres"), "GRANT")
	require.Len(t, grants, 3)
	for _, grant := range grants {
		_, err = owner.Exec(t.Context(), grant)
		require.NoError(t, err)
	}
	u, err := url.Parse(server.DSN())
	require.NoError(t, err)
	u.User = url.User("limiter")
	testEverything(t, u.String())
	w := startTestServer(t, twoRules, on(u.String()))
	purger := w.store.Store.(*postgres.Store)
	_, err = purger.Purge(t.Context(), 10)
	require.NoError(t, err)
}
