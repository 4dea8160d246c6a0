package serve

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
)

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

func withShortDecisions(o *Options) { o.DecisionTimeout = 1500 * time.Millisecond }

func TestErrorsOfRedisAreLoggedWithoutKeys(t *testing.T) {
	start := func(t *testing.T) (*servers.RedisServer, *testServer) {
		server := servers.Redis(t, "enable-debug-command yes")
		return server, startTestServer(t, byKey, withUpstream(t, hello), withShortDecisions, on("redis://"+server.Addr()))
	}
	do := func(t *testing.T, server *servers.RedisServer, command ...string) {
		_, err := server.Do(command...)
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		command []string
		want    string
	}{
		"full":           {[]string{"CONFIG", "SET", "maxmemory", "1"}, "OOM"},
		"replica":        {[]string{"REPLICAOF", "127.0.0.1", "1"}, "READONLY"},
		"no right":       {[]string{"ACL", "SETUSER", "default", "-evalsha"}, "NOPERM"},
		"no right later": {[]string{"ACL", "SETUSER", "default", "-del"}, "applied in part"},
		"other keys":     {[]string{"ACL", "SETUSER", "default", "resetkeys", "~other"}, "NOPERM"},
	} {
		t.Run(name, func(t *testing.T) {
			server, w := start(t)
			fetch(t, w.proxyURL("/"), "X-Api-Key", secretKey)
			do(t, server, c.command...)
			w.usesKeys(c.want)
		})
	}
	for name, script := range map[string]string{
		"list":      "for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('DEL', key) redis.call('LPUSH', key, 'x') end",
		"no record": "for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('SET', key, 'x') end",
		"other":     "for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('SET', key, '12345678other state') end",
	} {
		t.Run(name, func(t *testing.T) {
			server, w := start(t)
			fetch(t, w.proxyURL("/"), "X-Api-Key", secretKey)
			do(t, server, "EVAL", script, "0")
			w.usesKeys(map[string]string{"list": "WRONGTYPE", "no record": "is not a record", "other": "not a state"}[name])
		})
	}
	t.Run("stopped", func(t *testing.T) {
		server, w := start(t)
		server.Kill()
		w.usesKeys("refused")
	})
}

func TestUnknownCommandOfRedisIsLoggedWithoutKeys(t *testing.T) {
	server := servers.Redis(t, `rename-command EVALSHA ""`, `rename-command EVAL ""`)
	_, err := newTestServer(t, byKey, on("redis://"+server.Addr()))
	require.ErrorContains(t, err, "unknown command")
	require.NotContains(t, err.Error(), "probe", "the key of the probe")
}

func TestErrorsOfPostgresAreLoggedWithoutKeys(t *testing.T) {
	server := servers.Postgres(t)
	for name, c := range map[string]struct{ sql, want string }{
		"row":        {"BEGIN; SELECT FROM sluice_states WHERE position('" + secretKey + "' in encode(key, 'escape')) > 0 FOR UPDATE", "55P03"},
		"table":      {"BEGIN; LOCK sluice_states", "55P03"},
		"dropped":    {"DROP TABLE sluice_states", "42P01"},
		"constraint": {"ALTER TABLE sluice_states ADD CHECK (key = '') NOT VALID", "23514"},
		"trigger": {`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not % %', encode(NEW.key, 'escape'), encode(NEW.key, 'hex'); END $$;
			CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON sluice_states FOR EACH ROW EXECUTE FUNCTION refuse()`, "P0001"},
		"conversion": {`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM encode(NEW.key, 'escape')::int; RETURN NEW; END $$;
			CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON sluice_states FOR EACH ROW EXECUTE FUNCTION refuse()`, "22P02"},
		"text":   {"ALTER TABLE sluice_states ADD CHECK (convert_from(key || '\\xff', 'UTF8') = '') NOT VALID", "22021"},
		"rights": {"REVOKE ALL ON sluice_states FROM limiter", "42501"},
	} {
		t.Run(name, func(t *testing.T) {
			owner, err := pgx.Connect(context.Background(), server.DSN())
			require.NoError(t, err)
			t.Cleanup(func() { owner.Close(context.Background()) })
			schema := "keys_" + name
			_, err = owner.Exec(t.Context(), "CREATE SCHEMA "+schema+"; SET search_path = "+schema+"; DO $$ BEGIN CREATE ROLE limiter LOGIN; EXCEPTION WHEN OTHERS THEN END $$; GRANT ALL ON SCHEMA "+schema+" TO limiter; ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO limiter")
			require.NoError(t, err)
			newTestServer(t, byKey, on(withParameter(t, server.DSN(), "search_path", schema)))
			w := startTestServer(t, byKey, withUpstream(t, hello), withShortDecisions,
				on(strings.Replace(withParameter(t, server.DSN(), "search_path", schema), "sluice@", "limiter@", 1)))
			fetch(t, w.proxyURL("/"), "X-Api-Key", secretKey)
			_, err = owner.Exec(t.Context(), c.sql)
			require.NoError(t, err)
			w.usesKeys(c.want)
		})
	}
}

func TestErrorsOfSQLiteAreLoggedWithoutKeys(t *testing.T) {
	for name, c := range map[string]struct{ sql, want string }{
		"ignored":    {"CREATE TRIGGER ignore BEFORE INSERT ON sluice_states BEGIN SELECT RAISE(IGNORE); END", "was not written"},
		"trigger":    {"CREATE TRIGGER refuse BEFORE INSERT ON sluice_states BEGIN SELECT RAISE(ABORT, 'not ' || NEW.key); END", "a trigger of the table"},
		"constraint": {"DROP TABLE sluice_states; CREATE TABLE sluice_states (key BLOB PRIMARY KEY CHECK (key = ''), version, state, expires_at, purge_at)", "constraint"},
		"dropped":    {"DROP TABLE sluice_states", "no such table"},
		"locked":     {"BEGIN EXCLUSIVE", "locked"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.db")
			w := startTestServer(t, byKey, withUpstream(t, hello), withShortDecisions, on("sqlite:"+file))
			db, err := sql.Open("sqlite3", "file:"+file)
			require.NoError(t, err)
			t.Cleanup(func() { db.Close() })
			_, err = db.Exec(c.sql)
			require.NoError(t, err)
			w.usesKeys(c.want)
		})
	}
}
