package serve

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// socketPath returns a short path, because the paths of sockets are limited. t.TempDir contains the name
// of the test.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func onSocket(path string) func(*Options) { return func(o *Options) { o.API = "unix:" + path } }

// TestSocket: a socket that no process listens on is replaced, and one in use is not.
func TestSocket(t *testing.T) {
	path := socketPath(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	dead.Close()
	w := startTestServer(t, oneByIP, onSocket(path))
	_, err = newTestServer(t, oneByIP, onSocket(path))
	require.ErrorContains(t, err, "--api unix:"+path+": another process listens on this socket; stop it, or use another path")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o660), info.Mode().Perm())
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	response, err := (&http.Client{Transport: transport, Timeout: testTimeout}).Get("http://any.name/readyz")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")

	w.stop()
	require.NoError(t, w.ended())
	require.NoFileExists(t, path)
}

func TestInvalidAddressesOfTheAPI(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(file, link))
	short := filepath.Dir(socketPath(t))
	long := filepath.Join(short, strings.Repeat("d", 108-len(short)-1))
	tracetest.Answers(t, "testdata/listen_errors.txt", func(address string) string {
		_, err := newTestServer(t, oneByIP, func(o *Options) { o.API = strings.NewReplacer("DIR", dir, "LONG", long).Replace(address) })
		require.Error(t, err)
		return strings.NewReplacer(dir, "DIR", long, "LONG").Replace(err.Error())
	})
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "x", string(content))
}

func TestUpstreamMustNotBeTheProxyItself(t *testing.T) {
	tracetest.Answers(t, "testdata/loops.txt", func(addresses string) string {
		listen, address, _ := strings.Cut(addresses, " ")
		upstream, err := url.Parse(address)
		require.NoError(t, err)
		if _, _, err = (&Options{Upstream: upstream, Listen: listen}).addresses(); err != nil {
			return err.Error()
		}
		return ""
	})
}

func atMost(n int) func(*Options) { return func(o *Options) { o.MaxConnections = n } }

const manyByIP = "\nrules: [{name: client, policy: gcra 100000/h, by: ip}]\n"

// TestConnectionsBeyondTheLimitWait: a new connection waits until another one ends. /readyz still answers,
// because the API has its own connection limit.
func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	h := newHeld()
	w := startTestServer(t, manyByIP, withUpstream(t, h.ServeHTTP), atMost(2))
	for range 2 {
		sendText(t, w, "GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
		<-h.arrived
	}
	_, late := sendText(t, w, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // the kernel accepts it
	answered := make(chan error, 1)
	go func() {
		_, err := late.Peek(1)
		answered <- err
	}()
	w.waitFull()
	for range 3 {
		require.Equal(t, http.StatusOK, fetch(t, w.apiURL("/metrics")).StatusCode)
	}
	require.Empty(t, answered, "the connection waits")
	close(h.release)
	require.NoError(t, <-answered)
	require.Equal(t, http.StatusOK, readResponse(t, late).StatusCode)
}

// TestIdleConnectionsCloseAtTheLimit: idle connections do not block new ones.
func TestIdleConnectionsCloseAtTheLimit(t *testing.T) {
	w := startTestServer(t, manyByIP, withUpstream(t, hello), atMost(2))
	for range 20 {
		_, reader := sendText(t, w, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		require.Equal(t, http.StatusOK, readResponse(t, reader).StatusCode)
	}
}

// TestWebSocketsCountAsConnections: a WebSocket counts until it closes.
func TestWebSocketsCountAsConnections(t *testing.T) {
	w := startTestServer(t, manyByIP, withUpstream(t, echo), atMost(1))
	for range 3 { // each gets the room of the one before
		conn, reader, response := upgrade(t, w)
		require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
		require.Contains(t, response.Header.Get("RateLimit"), `"client";r=`)
		w.waitFull()
		ping(t, conn, reader)
		require.NoError(t, conn.Close())
	}
}

func TestServerAtItsConnectionLimitStops(t *testing.T) {
	w := startTestServer(t, manyByIP, withUpstream(t, echo), atMost(1))
	upgrade(t, w)
	w.waitFull()
	w.stop()
	require.NoError(t, w.ended())
}

// waitFull waits until the proxy has logged that --max-connections is reached.
func (w *testServer) waitFull() {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return strings.Contains(w.logged.String(), "max-connections") }, testTimeout, time.Millisecond)
}

const secret = "correct-horse-battery"

func TestLoopbackNeedsNoToken(t *testing.T) {
	for _, address := range []string{"localhost:0", "127.0.0.9:0"} {
		_, err := newTestServer(t, oneByIP, func(o *Options) { o.API = address })
		require.NoError(t, err, address)
	}
}

func TestToken(t *testing.T) {
	w := startTestServer(t, oneByIP, func(o *Options) { o.API, o.Token = "127.0.0.1:0", secret })
	for path, open := range map[string]bool{"/v1/allow": false, "/metrics": false, "/debug/denied": false, "/openapi.yaml": false, "/livez": true, "/readyz": true} {
		a := fetch(t, w.apiURL(path))
		require.Equal(t, open, a.StatusCode != http.StatusUnauthorized, path)
		if !open {
			require.Equal(t, `Bearer realm="sluice"`, a.Header.Get("WWW-Authenticate"))
		}
	}
	for status, fields := range map[int][]string{
		200: {"Bearer " + secret, "bearer " + secret},
		401: {"Bearer " + secret + "x", "Bearer ", secret, "Basic " + secret, "Bearer x, Bearer " + secret},
	} {
		for _, field := range fields {
			a := call(t, http.MethodPost, w.apiURL("/v1/peek"), strings.NewReader(`{"key":"a"}`), "Authorization", field)
			require.Equal(t, status, a.StatusCode, field)
		}
	}
	require.NotContains(t, w.logged.String(), secret)
}

func TestPublicListenerShowsNoKeys(t *testing.T) {
	w := startTestServer(t, oneByIP, func(o *Options) { o.API, o.Token = ":0", secret })
	_, port, _ := strings.Cut(strings.TrimPrefix(w.api.Addr().String(), "[::]"), ":")
	at := "http://127.0.0.1:" + port
	require.Equal(t, http.StatusNotFound, fetch(t, at+"/debug/denied", "Authorization", "Bearer "+secret).StatusCode)
	require.Equal(t, http.StatusOK, fetch(t, at+"/metrics", "Authorization", "Bearer "+secret, "Host", "limits.example").StatusCode)
}

func TestProxyServesNoAPI(t *testing.T) {
	w := startTestServer(t, manyByIP, withUpstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/debug/denied"} {
		require.Equal(t, http.StatusTeapot, fetch(t, w.proxyURL(path)).StatusCode, path)
	}
}

// keyText returns the key of a rule with the algorithm gcra in a store.
func keyText(rule, key string) string {
	return driver.RuleKey{Rule: driver.Rule("", rule, "gcra"), Key: key}.String()
}

func on(store string) func(*Options) { return func(o *Options) { o.Store = store } }

func TestFaultyReloadKeepsTheOldRules(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello))
	for rules, want := range map[string]string{
		strings.ReplaceAll(oneByIP, "gcra", "gcar"): "limits.yaml:4: rules[0].policy",
		"": "limits.yaml",
	} {
		w.rules.Store(rules)
		require.ErrorContains(t, w.Reload(t.Context()), want)
	}
	require.Equal(t, 3, w.allowed(4))
	w.rules.Store("rules: []\nbroken: yes\n")
	require.Error(t, w.Reload(t.Context()))
	const message = `msg="reload failed; the old rules stay in force" .*limits.yaml.* `
	require.Regexp(t, message+`line=1 field=rules`, w.logged.String())
	require.Regexp(t, message+`line=2 .*no field`, w.logged.String(), "each error has a line of the log")
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_reloads_total{outcome="failed"} 3`)
}

// TestReloadsThatCannotReadTheRules: a blocked read must not block later reloads, and a reload that the shutdown ends is no failure.
func TestReloadsThatCannotReadTheRules(t *testing.T) {
	w := startTestServer(t, oneByIP)
	ctx, end := context.WithCancel(t.Context())
	w.options.Read = func(ctx context.Context) (*config.File, error) {
		end()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	require.ErrorIs(t, w.Reload(ctx), context.Canceled)
	require.NotContains(t, w.logged.String(), "reload failed")
	w.options.Read = func(ctx context.Context) (*config.File, error) {
		_, ends := ctx.Deadline()
		require.True(t, ends)
		return nil, context.DeadlineExceeded
	}
	require.ErrorContains(t, w.Reload(t.Context()), "the rules could not be read within 30s; check the file")
	require.Contains(t, w.logged.String(), "reload failed; the old rules stay in force")
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_reloads_total{outcome="failed"} 1`)
}

// TestReloadUnderLoad raises and lowers a limit under load. No request fails, and quota that was used stays used.
func TestReloadUnderLoad(t *testing.T) {
	daily := func(count int64) string {
		return fmt.Sprintf("rules: [{name: daily, policy: fixedwindow %d/24h, by: ip}]", count)
	}
	var upstream atomic.Int64
	w := startTestServer(t, daily(100), withUpstream(t, func(http.ResponseWriter, *http.Request) { upstream.Add(1) }))
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	var allowed atomic.Int64
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil {
				response, err := client.Get(w.proxyURL("/"))
				if !assert.NoError(t, err) {
					return
				}
				assert.Contains(t, []int{http.StatusOK, http.StatusTooManyRequests}, response.StatusCode)
				if response.StatusCode == http.StatusOK {
					allowed.Add(1)
				}
				assert.NoError(t, response.Body.Close())
			}
		})
	}
	for _, count := range []int64{100, 300, 200, 400} {
		w.rules.Store(daily(count))
		require.NoError(t, w.Reload(t.Context()))
		require.Eventually(t, func() bool { return upstream.Load() >= count }, testTimeout, time.Millisecond) // already so if the limit was lowered
		require.Zero(t, w.allowed(1), count)
	}
	stop()
	clients.Wait()
	require.EqualValues(t, 400, allowed.Load())
	require.EqualValues(t, 400, upstream.Load())
}

// TestLogNamesTheRuleWithUnreadableStates: the log also has the remedy.
func TestLogNamesTheRuleWithUnreadableStates(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	w := startTestServer(t, oneByIP, on(store), withUpstream(t, hello))
	key := keyText("client", "127.0.0.1")
	_, _, err := w.store.CompareAndSwap(t.Context(), storage.Swap{Key: key, New: storage.Record{Version: 1, State: []byte("no state")}})
	require.NoError(t, err)
	require.Equal(t, 500, fetch(t, w.proxyURL("/")).StatusCode)
	require.Equal(t, 500, w.decide("allow", `{"key":"127.0.0.1"}`).StatusCode)
	for _, side := range []string{proxySide, serviceSide} {
		require.Regexp(t, `level=ERROR msg="a decision failed: The server or its configuration is faulty" side=`+side+` .* rule=client remedy="reset the key, give the rule a new name, or start with another --namespace`, w.logged.String())
	}
	require.NotContains(t, w.logged.String(), "127.0.0.1 ")
	require.Equal(t, []any{"error", sluice.ErrSkew.Error()}, logAttributes(sluice.ErrSkew))
}

// held is a handler that blocks requests for /held until release is closed.
type held struct{ arrived, release chan struct{} }

func newHeld() *held { return &held{make(chan struct{}, 1), make(chan struct{})} }

func (h *held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/held" {
		hello(w, r)
		return
	}
	h.arrived <- struct{}{}
	select {
	case <-h.release:
		hello(w, r)
	case <-r.Context().Done():
	}
}

// begin sends a request for /held and returns when the upstream has received it.
func (h *held) begin(w *testServer) <-chan error {
	failed := make(chan error, 1)
	go func() {
		response, err := client.Get(w.proxyURL("/held"))
		if err == nil {
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				err = http.ErrAbortHandler
			}
		}
		failed <- err
	}()
	<-h.arrived
	return failed
}

func TestShutdownWaitsForRequests(t *testing.T) {
	h := newHeld()
	w := startTestServer(t, oneByIP, withUpstream(t, h.ServeHTTP), func(o *Options) { o.ShutdownDelay = time.Millisecond })
	failed := h.begin(w)
	w.stop()
	require.Eventually(t, w.draining.Load, testTimeout, time.Millisecond)
	close(h.release)
	require.NoError(t, <-failed)
	require.NoError(t, w.ended())
}

// TestIdleConnectionsAreNotCutRequests: new and kept-alive connections without a request do not
// count as cut off.
func TestIdleConnectionsAreNotCutRequests(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello))
	sendText(t, w, "")
	_, reader := sendText(t, w, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, "hello", contentOf(t, readResponse(t, reader).Body))
	require.Eventually(t, func() bool { return !w.isBusy() }, testTimeout, time.Millisecond)
	w.stop()
	require.Eventually(t, w.draining.Load, testTimeout, time.Millisecond)
	w.Close()
	require.NoError(t, w.ended())
	require.Contains(t, w.logged.String(), "cut=false")
}

// fullSystem is a listener that cannot accept, as if the process could open no more files.
type fullSystem struct{ net.Listener }

func (fullSystem) Accept() (net.Conn, error) { return nil, syscall.EMFILE }

// TestFailedAcceptsUseNoSlot: otherwise the server would accept nothing any more after some of them.
func TestFailedAcceptsUseNoSlot(t *testing.T) {
	l := limitConnections(fullSystem{}, 1, func(bool) { t.Fatal("no connection is open") })
	for range 3 {
		_, err := l.Accept()
		require.ErrorIs(t, err, syscall.EMFILE)
	}
}

// TestFullListenerReportsThatItHasRoomAgain: otherwise the server would keep no connection alive any more.
func TestFullListenerReportsThatItHasRoomAgain(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	full := make(chan bool, 1)
	l := limitConnections(inner, 1, func(isFull bool) { full <- isFull })
	defer l.Close()
	for range 2 {
		conn, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
	}
	first, err := l.Accept()
	require.NoError(t, err)
	go l.Accept()
	require.True(t, <-full)
	require.NoError(t, first.Close())
	require.False(t, <-full)
}

// parseFlags returns the options of a command line.
func parseFlags(t *testing.T, args ...string) Options {
	t.Helper()
	var f serveFlags
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.Define(flags)
	require.NoError(t, flags.Parse(args))
	o, err := f.options(io.Discard)
	require.NoError(t, err)
	return o
}

// TestFlagsSetOptions: each flag sets its own option. Off is 0s in a flag, and a negative value in the options of package sluice.
func TestFlagsSetOptions(t *testing.T) {
	o := parseFlags(t,
		"--limit", "gcra 2/s", "--by", "path", "--trust", "10.0.0.0/8,192.0.2.1", "--upstream", "http://h:1/", "--listen", "127.0.0.1:2", "--upstream-host",
		"--upstream-timeout", "3s", "--client-timeout", "4s", "--min-body-rate", "5", "--body-grace", "6s", "--max-body", "7", "--legacy-fields",
		"--api", "127.0.0.1:8", "--max-connections", "9", "--no-functions", "--max-keys", "10", "--namespace", "n", "--on-failure", "open",
		"--decision-timeout", "11s", "--circuit-open-after", "12s", "--denial-cache-ttl", "0s", "--shutdown-delay", "13s", "--drain", "14s")
	file, err := o.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "[10.0.0.0/8 192.0.2.1/32], gcra 2/s, path", fmt.Sprintf("%v, %v, %s", file.Trusted, file.Rules[0].Policy, file.Rules[0].ByString()))
	o.Read, o.Log, o.Version = nil, nil, ""
	require.Equal(t, Options{
		Store: "memory:", StoreFrom: "--store", MaxKeys: 10, NoFunctions: true,
		Upstream: &url.URL{Scheme: "http", Host: "h:1", Path: "/"}, Listen: "127.0.0.1:2", UpstreamHost: true, UpstreamTimeout: 3 * time.Second,
		ClientTimeout: 4 * time.Second, MinBodyRate: 5, BodyGrace: 6 * time.Second, MaxBody: 7, Legacy: true, MaxConnections: 9,
		API: "127.0.0.1:8", Namespace: "n", DecisionTimeout: 11 * time.Second, OnFailure: sluice.FailOpen,
		CircuitOpenAfter: 12 * time.Second, DenialCacheTTL: -1, ShutdownDelay: 13 * time.Second, Drain: 14 * time.Second,
	}, o)
	local := parseFlags(t, "--limit=gcra 1/s", "--on-failure=local", "--circuit-open-after=0s")
	require.Equal(t, []any{sluice.FailLocal, time.Duration(-1), time.Second}, []any{local.OnFailure, local.CircuitOpenAfter, local.DenialCacheTTL})
	require.Equal(t, sluice.FailClosed, parseFlags(t, "--limit=gcra 1/s").OnFailure)
}
