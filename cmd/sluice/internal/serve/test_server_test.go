package serve

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/internal/testing/servers"
)

// shared has a PostgreSQL server for the tests that do not stop it.
var shared servers.Shared

func TestMain(m *testing.M) {
	code := m.Run()
	shared.Close()
	os.Exit(code)
}

// testTimeout is the longest time that a test waits. A test that passes waits less.
const testTimeout = time.Minute

// slack is how much later an event may come on a busy machine.
const slack = time.Second

// skipIfShort skips a slow test with -short. Most of these tests wait until a timeout is over.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short skips slow tests")
	}
}

// testServer is a running server.
type testServer struct {
	*Server
	t      testing.TB
	rules  *atomic.Value // the text that Options.Read parses
	logged *lines
	stop   context.CancelFunc
	done   chan error // what Serve returned
}

// oneByIP is one rule that limits by address.
const oneByIP = `
rules:
  - name: client
    policy: gcra 3/h
    by: ip
`

// startTestServer starts a server on loopback. changes edit its options.
func startTestServer(t testing.TB, rules string, changes ...func(*Options)) *testServer {
	t.Helper()
	w, err := newTestServer(t, rules, changes...)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() { w.done <- w.Serve(ctx) }()
	t.Cleanup(func() {
		w.Close()
		stop()
	})
	return w
}

// newTestServer returns a server that does not serve yet.
func newTestServer(t testing.TB, rules string, changes ...func(*Options)) (*testServer, error) {
	t.Helper()
	w := &testServer{t: t, rules: new(atomic.Value), logged: new(lines), done: make(chan error, 1)}
	w.rules.Store(rules)
	o := Options{
		Read: func(context.Context) (*config.File, error) {
			return config.Parse("limits.yaml", []byte(w.rules.Load().(string)))
		},
		Store: "memory:", StoreFrom: "--store",
		Listen: "127.0.0.1:0",
		API:    "127.0.0.1:0",
		Drain:  testTimeout,

		ClientTimeout:   testTimeout,
		DecisionTimeout: testTimeout,

		Log: slog.New(slog.NewTextHandler(w.logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, change := range changes {
		change(&o)
	}
	var err error
	if w.Server, err = New(context.Background(), o); err == nil {
		t.Cleanup(w.Close)
	}
	return w, err
}

// withUpstream runs the proxy in front of a handler.
func withUpstream(t testing.TB, handler http.HandlerFunc) func(*Options) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return at(t, server.URL)
}

// at runs the proxy in front of a URL.
func at(t testing.TB, address string) func(*Options) {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return func(o *Options) { o.Upstream = u }
}

func (w *testServer) proxyURL(path string) string { return "http://" + w.proxy.Addr().String() + path }
func (w *testServer) apiURL(path string) string   { return "http://" + w.api.Addr().String() + path }

// ended waits for Serve and returns its error.
func (w *testServer) ended() error {
	w.t.Helper()
	select {
	case err := <-w.done:
		return err
	case <-time.After(testTimeout):
		w.t.Fatal("the server does not end")
		return nil
	}
}

// reply is a response and its body.
type reply struct {
	*http.Response
	body string
}

// fetch sends a GET request. fields are names and values of its header.
func fetch(t testing.TB, url string, fields ...string) reply {
	t.Helper()
	return call(t, http.MethodGet, url, nil, fields...)
}

func call(t testing.TB, method, url string, content io.Reader, fields ...string) reply {
	t.Helper()
	r, err := http.NewRequest(method, url, content)
	require.NoError(t, err)
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "Host" {
			r.Host = fields[i+1]
			continue
		}
		r.Header.Add(fields[i], fields[i+1])
	}
	response, err := client.Do(r)
	require.NoError(t, err)
	return reply{response, contentOf(t, response.Body)}
}

// client keeps no connections, so that the shutdown of a server does not wait for them.
var client = &http.Client{Timeout: testTimeout, Transport: &http.Transport{DisableKeepAlives: true}}

// decide sends a request to the decision service.
func (w *testServer) decide(op, body string) reply {
	w.t.Helper()
	return call(w.t, http.MethodPost, w.apiURL("/v1/"+op), strings.NewReader(body))
}

// allowed sends n requests to the proxy and returns how many it allows.
func (w *testServer) allowed(n int) (count int) {
	w.t.Helper()
	for range n {
		switch a := fetch(w.t, w.proxyURL("/")); a.StatusCode {
		case http.StatusOK:
			count++
		case http.StatusTooManyRequests:
		default:
			w.t.Fatalf("status %d: %s", a.StatusCode, a.body)
		}
	}
	return count
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// sampledTo returns a sampled log of failures.
func sampledTo(w io.Writer) *slog.Logger {
	return sampleLog(slog.New(slog.NewTextHandler(w, nil)), failureSamples)
}

func hello(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }

// contentOf reads everything from r.
func contentOf(t testing.TB, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}

// unusedAddress returns an address that nobody listens on.
func unusedAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
