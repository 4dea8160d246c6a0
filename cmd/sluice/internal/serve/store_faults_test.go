package serve

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
)

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
		{"row", "BEGIN; SELECT FROM sluice_states WHERE position('" + secretKey + "' in encode(key, 'escape')) > 0 FOR UPDATE", "", "55P03"},
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

func TestUnknownCommandOfRedisIsLoggedWithoutKeys(t *testing.T) {
	server := servers.Redis(t, `rename-command EVALSHA ""`, `rename-command EVAL ""`)
	_, err := newTestServer(t, byKey, on("redis://"+server.Addr()))
	require.ErrorContains(t, err, "unknown command")
	require.NotContains(t, err.Error(), "probe", "the key of the probe")
}
