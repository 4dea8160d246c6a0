package serve

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

func TestStoreErrorsHaveNoPasswords(t *testing.T) {
	skipIfShort(t)
	gone := unusedAddress(t)
	for _, address := range []string{
		"redis://u:secret@" + gone,
		"redis://u:secret@" + gone + "/no-number",
		"redis://u:secret@%zz",
		"postgres://u:secret@" + gone + "/db",
		"postgres://u@" + gone + "/db?password=secret",
		"postgres://u@" + gone + "/db?sslpassword=secret&sslmode=perhaps",
		"postgres://u@" + gone + "/db?sslpassword=a%zzsecret",
		"postgres://u@" + gone + "/db?sslpassword=a;secret",
		"postgres://u@" + gone + "/db?pass%77ord=a&password=secret",
		"postgres://u@" + gone + "/db?connect_timeout=a&scram_client_key=secret",
		"postgres:///db?host=" + t.TempDir() + "&user=u&password=secret",
		"postgres://u:secret@" + gone + "," + gone + "/db",
		"postgres://u:secret/db",
		"postgres://u:1?secret@" + gone + "/db",
		"postgres://u:1?a=secret@" + gone + "/db",
		"redis://u@" + gone + "?password=secret",
		"redis://" + gone + "/0?db=1;password=secret",
		"redis://u:secret/0",
		"redis://:secret#1@" + gone,
		"postgres://u:secret@%zz/db",
		"postgres://u:secret@" + gone + "/db?sslmode=perhaps",
		"sqlite:" + filepath.Join(t.TempDir(), "missing", "secret.db"),
	} {
		text := errorOfNew(t, address)
		require.NotContains(t, text, "\n")
		require.True(t, strings.HasPrefix(text, address[:8]), text)
		if !strings.HasPrefix(address, "sqlite") {
			require.NotContains(t, text, "secret", address)
		}
	}
}

// TestStoppedStoreErrorHasARemedy: a store that answers with an error does not get this remedy.
func TestStoppedStoreErrorHasARemedy(t *testing.T) {
	skipIfShort(t)
	const remedy = "; start the store, or check its address"
	gone := unusedAddress(t)
	for _, address := range []string{"redis://" + gone, "postgres://u@" + gone + "/db", "redis://no-host.invalid", "postgres://u@no-host.invalid/db"} {
		require.True(t, strings.HasSuffix(errorOfNew(t, address), remedy), address)
	}
	require.NotContains(t, errorOfNew(t, "sqlite:"+filepath.Join(t.TempDir(), "missing", "x.db")), remedy)
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

func withParameter(t *testing.T, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
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

func TestErrorsAreLoggedWithoutKeys(t *testing.T) {
	for _, own := range []error{algo.ErrState, algo.ErrStateVersion, algo.ErrCost} {
		err := &sluice.RuleError{Rule: "a", Key: "secret", Err: own}
		require.Contains(t, err.Error(), "secret")
		require.NotContains(t, fmt.Sprint(logAttributes(errors.Join(storage.ErrUnavailable, err))...), "secret")
	}
}

// TestARoleThatMayNotCreateFunctions: the error at the start has the remedy.
func TestARoleThatMayNotCreateFunctions(t *testing.T) {
	ctx, server := t.Context(), shared.Postgres(t)
	owner, err := pgx.Connect(ctx, server.DSN())
	require.NoError(t, err)
	defer owner.Close(ctx)
	table, err := postgres.New(owner, postgres.Options{NoFunctions: true})
	require.NoError(t, err)
	_, err = owner.Exec(ctx, `CREATE SCHEMA restricted; SET search_path = restricted; CREATE ROLE restricted LOGIN; GRANT USAGE ON SCHEMA restricted TO restricted`)
	require.NoError(t, err)
	require.NoError(t, table.Migrate(ctx))
	_, err = owner.Exec(ctx, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA restricted TO restricted")
	require.NoError(t, err)

	u, err := url.Parse(withParameter(t, server.DSN(), "search_path", "restricted"))
	require.NoError(t, err)
	u.User = url.User("restricted")
	start := func(without bool) error {
		w, err := newTestServer(t, oneByIP, on(u.String()), func(o *Options) { o.NoFunctions = without })
		if err == nil {
			w.Close()
		}
		return err
	}
	require.ErrorContains(t, start(false), "--no-functions")
	require.NoError(t, start(true))
	functions, err := postgres.New(owner, postgres.Options{})
	require.NoError(t, err)
	require.NoError(t, functions.Migrate(ctx))
	require.NoError(t, start(false), "the owner has created them")
}
