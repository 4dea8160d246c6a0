package serve

import (
	"context"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/tracetest"
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

func TestReplacedSocketIsNotRemoved(t *testing.T) {
	path := socketPath(t)
	w := startTestServer(t, oneByIP, onSocket(path))
	require.NoError(t, os.Remove(path))
	other, err := listenUnix(path)
	require.NoError(t, err)
	defer other.Close()
	w.Close()
	require.NoError(t, w.ended())
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeSocket)
}

func TestInvalidSocketPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(file, link))
	short := filepath.Dir(socketPath(t))
	long := filepath.Join(short, strings.Repeat("d", 108-len(short)-1))
	for address, want := range map[string]string{
		"unix:":                          "unix: without a path; want unix:PATH, such as unix:/run/sluice.sock",
		"unix:" + file:                   "the file exists and is not a socket; use another path, or remove the file",
		"unix:" + link:                   "the file exists and is not a socket",
		"unix:" + dir + "/missing/s":     "no such file or directory",
		"unix:@sluice":                   "unix:@sluice: the path begins with @; want ./@sluice",
		"unix:" + long:                   "the path is too long for a socket; use a shorter one",
		"8080":                           `"8080": want HOST:PORT or :PORT, or unix:PATH`,
		"127.0.0.1:http-that-is-no-port": `invalid port "http-that-is-no-port"; want HOST:PORT or :PORT, or unix:PATH`,
		"no-host.invalid:8081":           `"no-host.invalid:8081": no address found for the host "no-host.invalid"; use its IP address`,
	} {
		_, err := newTestServer(t, oneByIP, func(o *Options) { o.API = address })
		require.ErrorContains(t, err, want, address)
	}
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

func TestPublicAddressNeedsAToken(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		_, err := newTestServer(t, oneByIP, func(o *Options) { o.API = address })
		require.ErrorContains(t, err, "want --token-file", address)
	}
	for _, address := range []string{"localhost:0", "127.0.0.9:0"} {
		w, err := newTestServer(t, oneByIP, func(o *Options) { o.API = address })
		require.NoError(t, err, address)
		w.Close()
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
	for field, status := range map[string]int{
		"Bearer " + secret:           200,
		"bearer " + secret:           200,
		"Bearer " + secret + "x":     401,
		"Bearer ":                    401,
		secret:                       401,
		"Basic " + secret:            401,
		"Bearer x, Bearer " + secret: 401,
	} {
		a := call(t, http.MethodPost, w.apiURL("/v1/peek"), strings.NewReader(`{"key":"a"}`), "Authorization", field)
		require.Equal(t, status, a.StatusCode, field)
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
