package readme

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

func clientBehind(proxies ...netip.Prefix) (func(*http.Request) string, error) {
	return httplimit.ClientIP{Trusted: proxies}.Key()
}

func clientOverSocket() (func(*http.Request) string, error) {
	return httplimit.ClientIP{TrustUnix: true}.Key()
}

type account struct{} // is the context's key for the name of who signed in

func accountOf(r *http.Request) (name string, found bool) {
	name, found = r.Context().Value(account{}).(string)
	return name, found
}

func afterSignIn(store storage.Store, client func(*http.Request) string) (*compose.Limiter[*http.Request], error) {
	perClient, err := compose.ParsePolicy("gcra 1000/m")
	if err != nil {
		return nil, err
	}
	perAccount, err := compose.ParsePolicy("all(gcra 10/s; gcra 100/m)")
	if err != nil {
		return nil, err
	}
	return compose.New(store,
		compose.Rule[*http.Request]{Name: "client", Key: client, Policy: perClient},
		compose.Rule[*http.Request]{Name: "account", Key: httplimit.Caller(accountOf).OrIP(client), Policy: perAccount})
}

type login struct{ client, account string }

func loginLimiter(store storage.Store) (*compose.Limiter[login], error) {
	from, err := compose.ParsePolicy("gcra 100/h burst=20")
	if err != nil {
		return nil, err
	}
	to, err := compose.ParsePolicy("gcra 10/h")
	if err != nil {
		return nil, err
	}
	return compose.New(store,
		compose.Rule[login]{Name: "login-from", Key: func(l login) string { return l.client }, Policy: from},
		compose.Rule[login]{Name: "login-to", Key: func(l login) string { return strings.ToLower(l.account) }, Policy: to})
}

func signIn(ctx context.Context, limiter *compose.Limiter[login], l login, check func() bool) (bool, error) {
	attempt, d, err := limiter.Reserve(ctx, l, 1)
	if err != nil || !d.Allowed || !check() {
		return false, err
	}
	// Only failures count. If it cannot be given back it stays paid, and he is in.
	_, _ = attempt.Settle(context.WithoutCancel(ctx), 0)
	return true, nil
}

func perKey(policy algo.Policy, client func(*http.Request) string) compose.Rule[*http.Request] {
	key := httplimit.KeyByHeader("X-Api-Key").OrIP(client)
	return compose.Rule[*http.Request]{Name: "key", Key: key, Policy: policy}
}

func onlyWithKey(policy algo.Policy) compose.Rule[*http.Request] {
	return httplimit.KeyByHeader("X-Api-Key").OrDeny(compose.Rule[*http.Request]{Name: "key", Policy: policy})
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

func TestKeysBehindProxies(t *testing.T) {
	key, err := clientBehind(netip.MustParsePrefix("10.0.0.0/24"))
	require.NoError(t, err)
	require.Equal(t, "203.0.113.6", key(request("10.0.0.7:80", "198.51.100.7, 203.0.113.6")))
	require.Equal(t, "10.0.1.7", key(request("10.0.1.7:80", "198.51.100.7")))
	key, err = clientOverSocket()
	require.NoError(t, err)
	require.Equal(t, "10.0.0.7", key(request("10.0.0.7:80", "198.51.100.7")))

	secret := pseudonym([]byte("secret"), key)
	require.Equal(t, secret(request("10.0.0.7:80")), secret(request("10.0.0.7:81")))
	require.NotEqual(t, secret(request("10.0.0.7:80")), secret(request("10.0.0.8:80")))
}

func TestAccountsAndAddressesAreLimitedTogether(t *testing.T) {
	limiter, err := afterSignIn(nil, func(*http.Request) string { return "203.0.113.6" })
	require.NoError(t, err)
	ann := request("").WithContext(context.WithValue(t.Context(), account{}, "ann"))
	d, err := limiter.AllowN(t.Context(), ann, 11) // more than 10 at once
	require.NoError(t, err)
	require.Equal(t, "account", d.Rule)
	require.EqualValues(t, 1000, d.Results[0].Remaining, "who is denied by one pays under none")
	require.Equal(t, "ann", d.Results[1].Key)
}

func TestOnlyFailedLoginsCount(t *testing.T) {
	limiter, err := loginLimiter(nil)
	require.NoError(t, err)
	right, wrong := func() bool { return true }, func() bool { return false }
	for range 50 {
		ok, err := signIn(t.Context(), limiter, login{"203.0.113.6", "Ann"}, right)
		require.NoError(t, err)
		require.True(t, ok)
	}
	for range 10 { // of which none comes back for 6 minutes
		ok, err := signIn(t.Context(), limiter, login{"203.0.113.6", "ann"}, wrong)
		require.NoError(t, err)
		require.False(t, ok)
	}
	ok, err := signIn(t.Context(), limiter, login{"198.51.100.7", "ANN"}, right)
	require.NoError(t, err)
	require.False(t, ok, "from another address, and by another spelling")
	ok, err = signIn(t.Context(), limiter, login{"203.0.113.6", "bob"}, right)
	require.NoError(t, err)
	require.True(t, ok)
}

// Goroutines that settle at the same time read their clocks in another order than they
// reach the store. Each gets back what it paid all the same.
func TestConcurrentLoginsAllGetTheirUnitBack(t *testing.T) {
	ann, kept := login{"203.0.113.6", "ann"}, 0
	for range 1000 {
		limiter, err := loginLimiter(nil)
		require.NoError(t, err)
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				ok, err := signIn(t.Context(), limiter, ann, func() bool { return true })
				if err != nil || !ok {
					t.Errorf("a right password: %v, %v", ok, err)
				}
			})
		}
		wait.Wait()
		d, err := limiter.Peek(t.Context(), ann)
		require.NoError(t, err)
		if d.Results[0].Remaining < 20 || d.Results[1].Remaining < 10 {
			kept++
		}
	}
	require.Zero(t, kept, "rounds of 1000 in which a unit stayed paid")
}

// What was never paid is not given back: a trial of 3 in an hour denies as many as it
// would if it were enforced, and an outage makes no room.
func TestASuccessGivesBackWhatItPaid(t *testing.T) {
	trial, err := compose.ParsePolicy("fixedwindow 3/h")
	require.NoError(t, err)
	denied := 0
	rule := compose.Rule[login]{Name: "trial", Policy: trial, Shadow: true}
	limiter, err := compose.Options[login]{Observer: func(e compose.Event) {
		if e.Op == compose.OpAllow && !e.Decision.Results[0].Allowed {
			denied++
		}
	}}.New(nil, rule)
	require.NoError(t, err)
	for i := range 20 {
		ok, err := signIn(t.Context(), limiter, login{}, func() bool { return i%2 == 1 })
		require.NoError(t, err)
		require.Equal(t, i%2 == 1, ok)
	}
	require.Equal(t, 15, denied)

	store := &outage{Store: new(memory.Store)}
	rule.Shadow = false
	limiter, err = compose.Options[login]{OnFailure: compose.FailOpen}.New(store, rule)
	require.NoError(t, err)
	_, err = limiter.AllowN(t.Context(), login{}, 2)
	require.NoError(t, err)
	store.err = storage.NotApplied(errors.New("away"))
	ok, err := signIn(t.Context(), limiter, login{}, func() bool { store.err = nil; return true })
	require.NoError(t, err)
	require.True(t, ok)
	d, err := limiter.Peek(t.Context(), login{})
	require.NoError(t, err)
	require.EqualValues(t, 1, d.Remaining)
}

// A sign-in does not fail because the client has left, or the store has, once it is one.
func TestASuccessThatCannotBeGivenBackIsOneAllTheSame(t *testing.T) {
	store := &outage{Store: new(memory.Store)}
	limiter, err := loginLimiter(store)
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	for range 20 {
		ok, err := signIn(ctx, limiter, login{"203.0.113.6", "ann"}, func() bool { leave(); return true })
		require.NoError(t, err)
		require.True(t, ok)
		ctx, leave = context.WithCancel(t.Context())
	}
	ok, err := signIn(ctx, limiter, login{"203.0.113.6", "ann"}, func() bool {
		store.err = storage.NotApplied(errors.New("away"))
		return true
	})
	leave()
	require.NoError(t, err)
	require.True(t, ok)
}

// outage is a store that fails while it has an error.
type outage struct {
	storage.Store
	err error
}

func (o *outage) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if o.err != nil {
		return nil, false, o.err
	}
	return o.Store.CompareAndSwap(ctx, swaps...)
}

func (o *outage) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if o.err != nil {
		return nil, o.err
	}
	return o.Store.Load(ctx, keys...)
}

func TestRequestsWithoutAKey(t *testing.T) {
	policy, err := compose.ParsePolicy("gcra 1/h")
	require.NoError(t, err)
	client, err := httplimit.ClientIP{}.Key()
	require.NoError(t, err)
	allowed := func(limiter *compose.Limiter[*http.Request], peer, key string) bool {
		r := request(peer)
		if key != "" {
			r.Header.Set("X-Api-Key", key)
		}
		d, err := limiter.Allow(t.Context(), r)
		require.NoError(t, err)
		return d.Allowed
	}
	limiter, err := compose.New(nil, perKey(policy, client))
	require.NoError(t, err)
	require.True(t, allowed(limiter, "192.0.2.1:9", ""))
	require.False(t, allowed(limiter, "192.0.2.1:9", ""))
	require.True(t, allowed(limiter, "192.0.2.2:9", ""))
	require.True(t, allowed(limiter, "192.0.2.1:9", "ann"))
	require.True(t, allowed(limiter, "192.0.2.1:9", "ip:192.0.2.1"))
	strict, err := compose.New(nil, onlyWithKey(policy))
	require.NoError(t, err)
	require.False(t, allowed(strict, "192.0.2.1:9", ""))
	require.True(t, allowed(strict, "192.0.2.1:9", "ann"))
	require.False(t, allowed(strict, "192.0.2.1:9", "ann"))
}

// TestTheSpoofingExperiment plays the terminals of the page: of each block the first
// command starts the server, and the others are asked of it.
func TestTheSpoofingExperiment(t *testing.T) {
	server := filepath.Join(t.TempDir(), "address")
	out, err := inWorkspace("go", "build", "-o", server, "./examples/address").CombinedOutput()
	require.NoError(t, err, string(out))

	terminals := regexp.MustCompile("(?s)```console\n\\$ go run ./examples/address(.*?)\n(.*?)```").FindAllStringSubmatch(readFile(t, root, "docs/keys.md"), -1)
	require.Len(t, terminals, 2)
	for _, terminal := range terminals {
		address := start(t, server, strings.Fields(terminal[1])...)
		asked := regexp.MustCompile(`(?m)^\$ curl(.*) http://127.0.0.1:8080/\n(.*)$`).FindAllStringSubmatch(terminal[2], -1)
		require.Len(t, asked, strings.Count(terminal[2], "$"), "each of them is understood")
		for _, command := range asked {
			require.Equal(t, command[2], curl(t, command[1], address), "curl%s", command[1])
		}
	}
	out, err = exec.Command(server, "-trust", "127.0.0.1").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "address: -trust: want a prefix such as 127.0.0.1/32: ")
}

// start starts the server on a port of its own, and is told which.
func start(t *testing.T, server string, arguments ...string) (address string) {
	t.Helper()
	command := exec.Command(server, append(arguments, "-listen", "127.0.0.1:0")...)
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

// curl asks as curl does with these options, of which it knows -H.
func curl(t *testing.T, options, address string) (answer string) {
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
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return strings.TrimSpace(string(body))
}
