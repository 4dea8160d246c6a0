package readme

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

func clientBehind(proxies ...netip.Prefix) (func(*http.Request) string, error) {
	return httplimit.ClientIP{Trusted: proxies}.Key()
}

func clientOverSocket() (func(*http.Request) string, error) {
	return httplimit.ClientIP{TrustUnix: true}.Key()
}

type account struct{} // the context key for the name of the authenticated user

func accountOf(r *http.Request) (name string, found bool) {
	name, found = r.Context().Value(account{}).(string)
	return name, found
}

func afterSignIn(store storage.Store, client func(*http.Request) string) (*sluice.Limiter[*http.Request], error) {
	return sluice.For(store,
		sluice.By("client", client, "gcra 1000/m"),
		sluice.By("account", httplimit.OptionalKey(accountOf).OrIP(client), "all(gcra 10/s; gcra 100/m)"))
}

func perKey(spec string, client func(*http.Request) string) sluice.Rule[*http.Request] {
	return sluice.By("key", httplimit.KeyByHeader("X-Api-Key").OrIP(client), spec)
}

func onlyWithKey(spec string) sluice.Rule[*http.Request] {
	return httplimit.KeyByHeader("X-Api-Key").OrDeny(sluice.Rule[*http.Request]{Name: "key", Spec: spec})
}

func pseudonym(secret []byte, key func(*http.Request) string) func(*http.Request) string {
	return func(r *http.Request) string {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(key(r)))
		return hex.EncodeToString(mac.Sum(nil)[:16])
	}
}

func request(peer string, forwarded ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr, r.Header["X-Forwarded-For"] = peer, forwarded
	return r
}

func TestKeys(t *testing.T) {
	key, err := clientBehind(netip.MustParsePrefix("10.0.0.0/24"))
	require.NoError(t, err)
	require.Equal(t, "203.0.113.6", key(request("10.0.0.7:80", "198.51.100.7, 203.0.113.6")))
	key, err = clientOverSocket()
	require.NoError(t, err)
	require.Equal(t, "10.0.0.7", key(request("10.0.0.7:80", "198.51.100.7")))
	secret := pseudonym([]byte("secret"), key)
	require.Equal(t, secret(request("10.0.0.7:80")), secret(request("10.0.0.7:81")))
	require.NotEqual(t, secret(request("10.0.0.7:80")), secret(request("10.0.0.8:80")))

	limiter, err := afterSignIn(nil, key)
	require.NoError(t, err)
	ann := request("").WithContext(context.WithValue(t.Context(), account{}, "ann"))
	d, err := limiter.AllowN(t.Context(), ann, 11) // more than 10 at once
	require.NoError(t, err)
	require.Equal(t, "account", d.Rule)
	require.EqualValues(t, 1000, d.Results[0].Remaining, "a call that one rule denies pays under no rule")
	require.Equal(t, "ann", d.Results[1].Key)

	for _, rule := range []sluice.Rule[*http.Request]{perKey("gcra 1/h", key), onlyWithKey("gcra 1/h")} {
		d, err := sluice.MustFor(nil, rule).Allow(t.Context(), request("192.0.2.1:9"))
		require.NoError(t, err)
		require.Equal(t, rule.PolicyFor == nil, d.Allowed, "only OrDeny has a PolicyFor, and denies requests without a key")
	}
}

// The first command of each block starts the server. The other commands send requests to it.
func TestSpoofingExperimentPrintsTheShownAddresses(t *testing.T) {
	needsBuild(t)
	server := filepath.Join(t.TempDir(), "address")
	out, err := inWorkspace("go", "build", "-o", server, "./examples/address").CombinedOutput()
	require.NoError(t, err, string(out))

	terminals := regexp.MustCompile("(?s)```console\n\\$ go run ./examples/address(.*?)\n(.*?)```").FindAllStringSubmatch(readFile(t, root, "docs/keys.md"), -1)
	require.Len(t, terminals, 1)
	for _, terminal := range terminals {
		command := exec.Command(server, append(strings.Fields(terminal[1]), "-listen", "127.0.0.1:0")...)
		address := strings.TrimPrefix(firstLine(t, command, command.StdoutPipe), "listening on ")
		commands := regexp.MustCompile(`(?m)^\$ curl(.*) http://127.0.0.1:8080/\n(.*)$`).FindAllStringSubmatch(terminal[2], -1)
		require.Len(t, commands, strings.Count(terminal[2], "$"), "the test can parse each command")
		for _, command := range commands {
			require.Equal(t, command[2], curl(t, command[1], address), "curl%s", command[1])
		}
	}
	out, err = exec.Command(server, "-trust", "127.0.0.1").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "address: -trust: want a prefix such as 127.0.0.1/32: ")
}

// curl sends the request that curl would send with these options. It supports only -H.
func curl(t *testing.T, options, address string) (body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	for _, header := range regexp.MustCompile(` -H '([^:']+): ([^']+)'`).FindAllStringSubmatch(options, -1) {
		r.Header.Add(header[1], header[2])
		options = strings.Replace(options, header[0], "", 1)
	}
	require.Empty(t, options)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return strings.TrimSpace(string(content))
}

func limited(next http.Handler, store storage.Store) (http.Handler, error) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")} // nil if clients connect directly
	client, err := httplimit.ClientIP{Trusted: proxies}.Key()
	if err != nil {
		return nil, err
	}
	limiter, err := sluice.For(store, sluice.By("client", client, "gcra 100/m burst=20"))
	if err != nil {
		return nil, err
	}
	isHealthCheck := func(r *http.Request) bool { return r.URL.Path == "/healthz" }
	return httplimit.Handler(limiter, next, httplimit.Options{Skip: isHealthCheck}), nil
}

func newClient(own *sluice.Limiter[*http.Request]) *http.Client {
	return &http.Client{Transport: &httplimit.Transport{Limiter: own}}
}

func TestHandlerLimitsAServer(t *testing.T) {
	h, err := limited(http.NotFoundHandler(), nil)
	require.NoError(t, err)
	server := httptest.NewServer(h)
	defer server.Close()
	client := newClient(sluice.MustFor(nil, sluice.By("host", httplimit.KeyByHost, "gcra 5/s")))
	for path, want := range map[string][]string{"/": {`"client";q=20;w=12`}, "/healthz": nil} {
		response, err := client.Get(server.URL + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, response.Header.Values("RateLimit-Policy"), path)
	}
}

func TestSignups(t *testing.T) {
	policy, state := sluice.MustPolicy("gcra 3/h burst=2"), []byte(nil) // no state: a new key
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, call := range []struct {
		at, retryAfter time.Duration
		allowed        bool
	}{
		{at: 0, allowed: true},
		{at: 0, allowed: true},
		{at: 0, retryAfter: 20 * time.Minute},
		{at: 19 * time.Minute, retryAfter: time.Minute},
		{at: 20 * time.Minute, allowed: true},
	} {
		next, result, err := policy.Step(nil, state, noon.Add(call.at), 1) // nil: no buffer for the next state
		if err != nil || result.Allowed != call.allowed || result.RetryAfter != call.retryAfter {
			t.Errorf("after %v: %+v, %v", call.at, result, err)
		}
		state = next
	}
}

func TestLaws(t *testing.T) {
	algotest.Run(t, algotest.Subject{
		Name: "gcra",
		New: func(limit algo.Limit) (algo.Policy, error) {
			return gcra.New(gcra.Options{Limit: limit})
		},
	})
}

// purge removes all expired records, 1000 in a call.
func purge(ctx context.Context, store storage.Purger) error {
	for {
		removed, err := store.Purge(ctx, 1000)
		if err != nil || removed < 1000 {
			return err
		}
	}
}

func Example_purge() {
	dir, err := os.MkdirTemp("", "purge")
	check(err)
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "limits.db")+"?_journal_mode=WAL")
	check(err)
	defer db.Close()
	ctx, now := context.Background(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store, err := sqlite.New(db, sqlite.Options{Clock: func() time.Time { return now }})
	check(err)
	check(store.Migrate(ctx))
	swaps := make([]storage.Swap, 2500)
	for i := range swaps {
		record := storage.Record{Version: storage.NewVersion()}
		swaps[i] = storage.Swap{Key: fmt.Sprint(i), New: record, TTL: time.Duration(i+1) * time.Minute}
	}
	_, _, err = store.CompareAndSwap(ctx, swaps...)
	check(err)

	now = now.Add(2400 * time.Minute)
	check(purge(ctx, store))
	var left int
	check(db.QueryRow("SELECT count(*) FROM sluice_states").Scan(&left))
	fmt.Println(left, "left of", len(swaps))
	// Output:
	// 100 left of 2500
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
