package serve

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestProxyLimits(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello))
	first := fetch(t, w.proxyURL("/"))
	require.Equal(t, "hello", first.body)
	require.Equal(t, `"client";q=3;w=3600`, first.Header.Get("RateLimit-Policy"))
	require.Equal(t, `"client";r=2;t=1200`, first.Header.Get("RateLimit"))
	require.Equal(t, 2, w.allowed(3))

	denied := fetch(t, w.proxyURL("/"))
	require.Equal(t, http.StatusTooManyRequests, denied.StatusCode)
	require.Equal(t, "application/problem+json", denied.Header.Get("Content-Type"))
	require.Contains(t, denied.body, `"violated-policies":["client"]`)
	require.Regexp(t, `^1(1\d\d|200)$`, denied.Header.Get("Retry-After"))
}

func TestProxyCanSendLegacyFields(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		w := startTestServer(t, oneByIP, withUpstream(t, hello), func(o *Options) { o.Legacy = legacy })
		require.Equal(t, legacy, fetch(t, w.proxyURL("/")).Header.Get("X-RateLimit-Remaining") == "2")
	}
}

// An upstream with limits of its own may send these fields too. The client gets those of the limit with the least remaining.
func TestLegacyFieldsHaveOneValue(t *testing.T) {
	for remaining, limit := range map[string]string{"1": "99", "2": "3", "many": "3"} {
		w := startTestServer(t, oneByIP, withUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Limit", "99")
			w.Header().Set("X-RateLimit-Remaining", remaining)
			w.Header().Set("X-RateLimit-Reset", "7")
		}), func(o *Options) { o.Legacy = true })
		a := fetch(t, w.proxyURL("/"))
		require.Equal(t, []string{limit}, a.Header.Values("X-RateLimit-Limit"), remaining)
		require.Len(t, a.Header.Values("X-RateLimit-Remaining"), 1)
		require.Len(t, a.Header.Values("X-RateLimit-Reset"), 1)
		require.Equal(t, limit == "99", a.Header.Get("X-RateLimit-Reset") == "7", "all are of one limit")
	}
}

func TestProxyForwardsRequestsUnchanged(t *testing.T) {
	seen := make(chan *http.Request, 1)
	w := startTestServer(t, oneByIP, withUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.Header().Set("RateLimit", `"inner";r=7;t=1`)
		w.Header()["Ratelimit-Policy"] = []string{`"inner";q=9`, `"other";q=8`}
		w.WriteHeader(http.StatusTeapot)
	}))
	a := call(t, http.MethodPut, w.proxyURL("/a%2Fb/?x=1;y=2&z=%zz"), strings.NewReader("abc"), "Host", "shop.example", "X-Mine", "1")
	require.Equal(t, http.StatusTeapot, a.StatusCode)
	require.Equal(t, []string{`"client";r=2;t=1200, "inner";r=7;t=1`}, a.Header.Values("RateLimit"))
	require.Equal(t, []string{`"client";q=3;w=3600, "inner";q=9, "other";q=8`}, a.Header.Values("RateLimit-Policy"))
	got := <-seen
	require.Equal(t, "/a%2Fb/?x=1;y=2&z=%zz", got.RequestURI)
	require.Equal(t, "shop.example", got.Host)
	require.Equal(t, "1", got.Header.Get("X-Mine"))
	require.EqualValues(t, 3, got.ContentLength)
}

func TestProxyCanSendTheUpstreamsOwnHost(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) }),
		func(o *Options) { o.UpstreamHost = true })
	require.Equal(t, w.options.Upstream.Host, fetch(t, w.proxyURL("/"), "Host", "shop.example").body)
}

func TestUpstreamDown(t *testing.T) {
	w := startTestServer(t, oneByIP, at(t, "http://"+unusedAddress(t)))
	a := fetch(t, w.proxyURL("/"))
	require.Equal(t, http.StatusBadGateway, a.StatusCode)
	require.Equal(t, "application/problem+json", a.Header.Get("Content-Type"))
	require.Contains(t, a.body, `"applied":"yes"`)
	require.Equal(t, `"client";r=2;t=1200`, a.Header.Get("RateLimit"))
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_upstream_failures_total{status="502"} 1`)
	require.Contains(t, w.logged.String(), "the upstream failed")
}

func TestClosedClientsAreNotUpstreamFailures(t *testing.T) {
	h := newHeld()
	w := startTestServer(t, oneByIP, withUpstream(t, h.ServeHTTP))
	conn, _ := sendText(t, w, "GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
	<-h.arrived
	conn.Close()
	require.Eventually(t, func() bool { return strings.Contains(w.logged.String(), "the client closed the connection") }, testTimeout, time.Millisecond)
	w.stop()
	require.NoError(t, w.ended())
	require.Zero(t, testutil.ToFloat64(w.metrics.upstream.WithLabelValues("502")))
}

func TestUpstreamSlow(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	w := startTestServer(t, oneByIP, withUpstream(t, func(http.ResponseWriter, *http.Request) { <-release }),
		func(o *Options) { o.UpstreamTimeout = time.Millisecond })
	require.Equal(t, http.StatusGatewayTimeout, fetch(t, w.proxyURL("/")).StatusCode)
}

func TestLimitFieldsSurviveEarlyHints(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("RateLimit", `"inner";r=7;t=1`)
		w.WriteHeader(http.StatusOK)
	}))
	a := fetch(t, w.proxyURL("/"))
	require.Equal(t, []string{`"client";r=2;t=1200, "inner";r=7;t=1`}, a.Header.Values("RateLimit"))
	require.Equal(t, []string{`"client";q=3;w=3600`}, a.Header.Values("RateLimit-Policy"))
}

// TestTrailersOfRequestsAreNotPassedOn: some servers read trailers as headers.
func TestTrailersOfRequestsAreNotPassedOn(t *testing.T) {
	seen := make(chan *http.Request, 1)
	w := startTestServer(t, oneByIP, withUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		seen <- r
	}))
	_, reader := sendText(t, w, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-Forwarded-For\r\n\r\n"+
		"3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-Forwarded-For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\n\r\n")
	require.Equal(t, http.StatusOK, readResponse(t, reader).StatusCode)
	require.Empty(t, (<-seen).Trailer)
}

// TestLimitsAreNotInTrailers: the upstream may announce them or not.
func TestLimitsAreNotInTrailers(t *testing.T) {
	for name, end := range map[string]func(http.Header){
		"announced":    func(h http.Header) { h.Set("X-Sum", "1"); h.Set("RateLimit", `"evil";r=1`) },
		"and not sent": func(h http.Header) { h.Set("X-Sum", "1") },
		"not announced": func(h http.Header) {
			h.Set("X-Sum", "1")
			h.Set(http.TrailerPrefix+"Retry-After", "1")
			h.Set(http.TrailerPrefix+"X-More", "2")
		},
	} {
		w := startTestServer(t, oneByIP, withUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum, RateLimit, ratelimit-policy, X-RateLimit-Limit")
			io.WriteString(w, "hello")
			end(w.Header())
		}))
		for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
			a := fetchBy(t, version, w.proxyURL("/"))
			require.Equal(t, version, a.Proto)
			require.Equal(t, "hello", a.body, name)
			require.NotEmpty(t, a.Header.Get("RateLimit"), name)
			require.Equal(t, "1", a.Trailer.Get("X-Sum"), name)
			if name == "not announced" {
				require.Equal(t, "2", a.Trailer.Get("X-More"), version)
				a.Trailer.Del("X-More")
			}
			require.Len(t, a.Trailer, 1, "%s: %v", name, a.Trailer)
		}
	}
}

// echo upgrades the connection and sends back everything that it receives.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	io.Copy(conn, buffer)
}

// upgrade opens a WebSocket connection through the proxy.
func upgrade(t *testing.T, w *testServer) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	conn, reader := sendText(t, w, "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	return conn, reader, readResponse(t, reader)
}

// ping sends a message over an upgraded connection to echo, and waits for the answer.
func ping(t *testing.T, conn net.Conn, reader *bufio.Reader) {
	t.Helper()
	_, err := io.WriteString(conn, "ping\n")
	require.NoError(t, err)
	text, err := reader.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ping\n", text)
}

// fetchBy sends a GET request in a version of HTTP, HTTP/1.1 or HTTP/2.0.
func fetchBy(t *testing.T, version, url string) reply {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(version == "HTTP/1.1")
	protocols.SetUnencryptedHTTP2(version == "HTTP/2.0")
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	response, err := (&http.Client{Transport: transport, Timeout: testTimeout}).Get(url)
	require.NoError(t, err)
	return reply{response, contentOf(t, response.Body)}
}

const byBytes = `
rules:
  - name: uploads
    policy: tokenbucket 1000/h
    by: ip
    cost: bytes
    methods: [POST]
`

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		name    string
		maxBody int64
		method  string
		length  int // of the body; negative: sent without Content-Length
		status  int
		left    string
	}{
		{"within", 0, http.MethodPost, 600, 200, `"uploads";r=400;t=4`},
		{"above the capacity", 0, http.MethodPost, 1001, 413, `"uploads";r=1000`},
		{"unknown length", 0, http.MethodPost, -600, 411, ""},
		{"unknown length, and no rule counts bytes", 0, http.MethodPut, -600, 200, ""},
		{"unknown length, but bounded", 700, http.MethodPost, -600, 200, `"uploads";r=300;t=4`},
		{"unknown length, bounded by more than the capacity", 1001, http.MethodPost, -600, 411, ""},
		{"unknown length, bounded by the capacity", 1000, http.MethodPost, -600, 200, `"uploads";r=0;t=4`},
		{"unknown length, and above --max-body", 500, http.MethodPost, -600, 413, `"uploads";r=500;t=4`},
		{"above --max-body", 500, http.MethodPut, 600, 413, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := startTestServer(t, byBytes, withUpstream(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }),
				func(o *Options) { o.MaxBody = c.maxBody })
			var content io.Reader = strings.NewReader(strings.Repeat("x", max(c.length, -c.length)))
			if c.length < 0 {
				content = io.MultiReader(content)
			}
			a := call(t, c.method, w.proxyURL("/"), content)
			require.Equal(t, c.status, a.StatusCode, a.body)
			require.Equal(t, c.left, a.Header.Get("RateLimit"))
			if c.status == http.StatusRequestEntityTooLarge && c.maxBody == 0 {
				require.Equal(t, `"uploads";q=1000;w=3600;qu="content-bytes"`, a.Header.Get("RateLimit-Policy"))
				require.NotContains(t, a.Header, "Retry-After")
				require.Equal(t, "application/problem+json", a.Header.Get("Content-Type"))
			}
		})
	}
}

func TestShadowRulesChangeNoResponse(t *testing.T) {
	w := startTestServer(t, byBytes+"    shadow: true\n", withUpstream(t, hello))
	a := call(t, http.MethodPost, w.proxyURL("/"), io.MultiReader(strings.NewReader("x")))
	require.Equal(t, http.StatusOK, a.StatusCode, a.body)
}

// statusOf returns the status of a GET request whose request line has the target unchanged.
func statusOf(t *testing.T, w *testServer, target string) int {
	t.Helper()
	_, reader := sendText(t, w, "GET "+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	return readResponse(t, reader).StatusCode
}

// TestTargetsWithoutAPathAreRefused: they would bypass rules for paths.
func TestTargetsWithoutAPathAreRefused(t *testing.T) {
	upstream := sends(t, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
	w := startTestServer(t, "\nrules: [{name: login, policy: fixedwindow 1/h, paths: [/login]}]\n", at(t, upstream))
	for _, target := range []string{"x:login", "http:login", "x:login?y", "x:%2flogin"} {
		require.Equal(t, http.StatusBadRequest, statusOf(t, w, target), target)
	}
	for _, target := range []string{"/", "http://evil.example", "x://y/search", "x:?/login"} {
		require.Equal(t, http.StatusOK, statusOf(t, w, target), target)
	}
	require.Equal(t, http.StatusOK, statusOf(t, w, "x:/login"))
	require.Equal(t, http.StatusTooManyRequests, statusOf(t, w, "http://evil.example/login"))
}

func TestDotDotCannotLeaveTheUpstreamPath(t *testing.T) {
	seen := make(chan string, 1)
	note := func(_ http.ResponseWriter, r *http.Request) { seen <- r.RequestURI }
	w := startTestServer(t, "\nrules: [{name: all, policy: gcra 100/h}]\n", withUpstream(t, note), func(o *Options) { o.Upstream.Path = "/base" })
	for _, target := range []string{
		"/..", "/../base/login", "/x/../login", "/%2e%2e/base/login", "/.%2E/x", "/..%2fx", "/x%2f..", "/..;x=1/x", "/..%3bx/y", `/..\x`, "/x%5c..%5cy", "http://y/../x",
	} {
		require.Equal(t, http.StatusBadRequest, statusOf(t, w, target), target)
	}
	for target, want := range map[string]string{"/": "/base/", "/login": "/base/login", "/a..b/...": "/base/a..b/...", "/.;x/.": "/base/.;x/.", "/x?../y": "/base/x?../y"} {
		require.Equal(t, http.StatusOK, statusOf(t, w, target), target)
		require.Equal(t, want, <-seen)
	}
}

// TestOtherUpgradesAreNotForwarded: data after an upgrade is not limited.
func TestOtherUpgradesAreNotForwarded(t *testing.T) {
	seen := make(chan http.Header, 1)
	w := startTestServer(t, "\nrules: [{name: all, policy: gcra 100/h}]\n", withUpstream(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	for _, fields := range []string{
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"Connection: upgrade\r\nUpgrade: H2C\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
		"Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket/13\r\n",
		"Connection: Upgrade\r\nUpgrade: web\x80s\r\n",
		"Connection: Upgrade\r\nUpgrade:\r\n",
		"HTTP2-Settings: AAMAAABkAAQAAP__\r\n",
	} {
		_, reader := sendText(t, w, "GET / HTTP/1.1\r\nHost: x\r\n"+fields+"\r\n")
		require.Equal(t, http.StatusOK, readResponse(t, reader).StatusCode, fields)
		got := <-seen
		for _, name := range []string{"Connection", "Upgrade", "Http2-Settings"} {
			require.NotContains(t, got, name, fields)
		}
	}
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_upstream_failures_total{status="502"} 0`)
}
