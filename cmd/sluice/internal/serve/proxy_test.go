package serve

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func TestProxyLimits(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello))
	first := fetch(t, w.proxyURL("/"))
	require.Equal(t, "hello", first.body)
	require.Equal(t, `"client";q=3;w=3600`, first.Header.Get("RateLimit-Policy"))
	require.Equal(t, `"client";r=2;t=1200`, first.Header.Get("RateLimit"))
	require.Empty(t, first.Header.Get("X-RateLimit-Remaining"), "without --legacy-fields")
	require.Equal(t, 2, w.allowed(3))

	denied := fetch(t, w.proxyURL("/"))
	require.Contains(t, denied.body, `"violated-policies":["client"]`)
	require.Regexp(t, `^1(1\d\d|200)$`, denied.Header.Get("Retry-After"))
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
		w.Header()["Ratelimit-Policy"] = []string{`"inner";q=9`, "", `"other";q=8`}
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

// TestResponseAfterEarlyHints: they do not clear the fields of the limits. A browser would show text of a user as a page if the proxy guessed
// that it is HTML.
func TestResponseAfterEarlyHints(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("RateLimit", `"inner";r=7;t=1`)
		w.Header()["Content-Type"] = nil
		io.WriteString(w, "<html>")
	}))
	a := fetch(t, w.proxyURL("/"))
	require.Equal(t, []string{`"client";r=2;t=1200, "inner";r=7;t=1`}, a.Header.Values("RateLimit"))
	require.Equal(t, []string{`"client";q=3;w=3600`}, a.Header.Values("RateLimit-Policy"))
	require.NotContains(t, a.Header, "Content-Type")
}

// TestInterimResponses: a client with HTTP/1.0 would take one for the response. Clients with HTTP/2 refuse fields of a connection.
func TestInterimResponses(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"Connection", "Keep-Alive", "Link", "Proxy-Connection", "Upgrade", "X-Hop"} {
			w.Header().Set(name, "x-hop")
		}
		w.WriteHeader(http.StatusEarlyHints)
		clear(w.Header())
	}))
	_, reader := sendText(t, w, "GET / HTTP/1.0\r\n\r\n")
	require.Equal(t, http.StatusOK, readResponse(t, reader).StatusCode)
	for version, client := range map[string]*http.Client{"HTTP/1.1": client, "HTTP/2.0": newHTTP2(nil)} {
		defer client.CloseIdleConnections()
		var interim textproto.MIMEHeader
		note := func(_ int, h textproto.MIMEHeader) error { interim = h; return nil }
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: note}),
			http.MethodGet, w.proxyURL("/"), nil)
		require.NoError(t, err)
		a, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		require.Equal(t, version, a.Proto)
		require.Equal(t, textproto.MIMEHeader{"Link": {"x-hop"}}, interim, version)
	}
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

// TestWebSocketsKeepWhatTheClientSendsEarly: together with its request, and more than net/http reads at once.
func TestWebSocketsKeepWhatTheClientSendsEarly(t *testing.T) {
	w := startTestServer(t, manyByIP, withUpstream(t, echo))
	for _, size := range []int{1, 1000, 100_000} {
		early := strings.Repeat("x", size) + "\n"
		conn, reader := sendText(t, w, "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"+early)
		require.Equal(t, http.StatusSwitchingProtocols, readResponse(t, reader).StatusCode)
		text, err := reader.ReadString('\n')
		require.NoError(t, err, size)
		require.Equal(t, early, text)
		ping(t, conn, reader)
	}
}

// goneClient is the writer of a response to a client that has left.
type goneClient struct{ *httptest.ResponseRecorder }

func (goneClient) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, client := net.Pipe()
	client.Close()
	return conn, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)), nil
}

// TestClientThatLeavesBeforeItsUpgradeIsNoFailureOfTheUpstream: the log then has no address of the client either.
func TestClientThatLeavesBeforeItsUpgradeIsNoFailureOfTheUpstream(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, echo))
	r := httptest.NewRequest(http.MethodGet, "/chat", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	written := httptest.NewRecorder()
	w.current.Load().handler.ServeHTTP(goneClient{written}, r)
	require.Empty(t, written.Body, "net/http would log an error")
	require.Contains(t, w.logged.String(), "the client closed the connection")
	require.NotContains(t, w.logged.String(), "the upstream failed")
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_upstream_failures_total{status="502"} 0`)
}

// TestUnexpectedUpgradesCloseTheirConnections: the upstream sends 101 although the client has asked for another protocol, or for none.
func TestUnexpectedUpgradesCloseTheirConnections(t *testing.T) {
	closed := make(chan error, 1)
	upstream := listen(t, func(conn net.Conn) {
		http.ReadRequest(bufio.NewReader(conn))
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		_, err := io.Copy(io.Discard, conn)
		closed <- err
	})
	w := startTestServer(t, oneByIP, at(t, "http://"+upstream))
	_, _, response := upgrade(t, w)
	require.Equal(t, http.StatusBadGateway, response.StatusCode)
	<-closed
	require.Equal(t, http.StatusBadGateway, fetch(t, w.proxyURL("/")).StatusCode)
	<-closed
}

const byBytes = `
rules:
  - name: uploads
    policy: tokenbucket 1000/h
    by: ip
    cost: bytes
    methods: [POST]
`

// TestBytes: a question has a request, and --max-body. The answer has the status, RateLimit and other fields of a limit.
func TestBytes(t *testing.T) {
	tracetest.Answers(t, "testdata/bytes.txt", func(question string) string {
		var method, length string
		var size, maxBody int
		_, err := fmt.Sscanf(question, "%s of %d bytes, %s length, --max-body %d", &method, &size, &length, &maxBody)
		require.NoError(t, err)
		w := startTestServer(t, byBytes, withUpstream(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }),
			func(o *Options) { o.MaxBody = int64(maxBody) })
		var content io.Reader = strings.NewReader(strings.Repeat("x", size))
		if length == "unknown" {
			content = io.MultiReader(content)
		}
		a := call(t, method, w.proxyURL("/"), content)
		answer := fmt.Sprint(a.StatusCode)
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "Retry-After", "Content-Type"} {
			if value := a.Header.Get(name); value != "" {
				answer += " " + name + ": " + value
			}
		}
		return answer
	})
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

func TestRulesForPathsApplyToTargetsWithAHost(t *testing.T) {
	w := startTestServer(t, "\nrules: [{name: login, policy: fixedwindow 1/h, paths: [/login]}]\n", withUpstream(t, hello))
	require.Equal(t, http.StatusOK, statusOf(t, w, "x:/login"))
	require.Equal(t, http.StatusTooManyRequests, statusOf(t, w, "http://evil.example/login"))
}

func TestTargets(t *testing.T) {
	seen := make(chan string, 1)
	note := func(_ http.ResponseWriter, r *http.Request) { seen <- r.RequestURI }
	w := startTestServer(t, "\nrules: [{name: all, policy: gcra 100/h}]\n", withUpstream(t, note), func(o *Options) { o.Upstream.Path = "/base" })
	forwarded := 0
	tracetest.Answers(t, "testdata/targets.txt", func(target string) string {
		status := statusOf(t, w, target)
		if status != http.StatusOK {
			return strconv.Itoa(status)
		}
		forwarded++
		return fmt.Sprint(status, " ", <-seen)
	})
	require.Contains(t, w.decide("peek", `{"key":""}`).body, fmt.Sprintf(`"remaining":%d,`, 100-forwarded))
	require.NotContains(t, w.logged.String(), "the upstream failed")
}

// TestOtherUpgradesAreNotForwarded: data after an upgrade is not limited.
func TestOtherUpgradesAreNotForwarded(t *testing.T) {
	seen := make(chan http.Header, 1)
	w := startTestServer(t, "\nrules: [{name: all, policy: gcra 100/h}]\n", withUpstream(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	tracetest.Answers(t, "testdata/upgrades.txt", func(fields string) (got string) {
		_, reader := sendText(t, w, "GET / HTTP/1.1\r\nHost: x\r\n"+strings.ReplaceAll(fields, " | ", "\r\n")+"\r\n\r\n")
		require.Equal(t, http.StatusOK, readResponse(t, reader).StatusCode, fields)
		h := <-seen
		for _, name := range []string{"Connection", "Upgrade", "Http2-Settings"} {
			if values := h[name]; values != nil {
				got += fmt.Sprintf(" %s: %s", name, strings.Join(values, ", "))
			}
		}
		return strings.TrimSpace(got)
	})
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_upstream_failures_total{status="502"} 0`)
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestInvalidStatusesAreFailures: net/http reads such statuses over HTTP/2, and panics if it is to send one.
func TestInvalidStatusesAreFailures(t *testing.T) {
	for status, want := range map[int]int{-5: 502, 0: 502, 99: 502, 200: 200, 999: 999, 1000: 502} {
		w := startTestServer(t, oneByIP, at(t, "test://upstream"))
		w.transport.RegisterProtocol("test", roundTripFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}, nil
		}))
		require.Equal(t, want, fetch(t, w.proxyURL("/")).StatusCode, status)
	}
}

// TestUpstreamOverTLS: HTTP/2 is used if the upstream offers it, as a gRPC server does, but not for WebSockets.
func TestUpstreamOverTLS(t *testing.T) {
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			echo(w, r)
			return
		}
		message, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "Grpc-Status")
		w.Write(message)
		w.Header().Set("Grpc-Status", r.Header.Get("Te")+" "+r.Proto)
	}))
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	t.Cleanup(upstream.Close)
	w := startTestServer(t, oneByIP, at(t, upstream.URL))
	require.Equal(t, http.StatusBadGateway, fetch(t, w.proxyURL("/")).StatusCode, "the certificate is unknown")
	w.transport.TLSClientConfig.RootCAs = upstream.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	client := newHTTP2(nil)
	defer client.CloseIdleConnections()
	r, err := http.NewRequest(http.MethodPost, w.proxyURL("/s/m"), strings.NewReader("call"))
	require.NoError(t, err)
	r.Header.Set("Te", "trailers")
	a, err := client.Do(r)
	require.NoError(t, err)
	require.Equal(t, "call", contentOf(t, a.Body))
	require.Equal(t, "trailers HTTP/2.0", a.Trailer.Get("Grpc-Status"))
	_, _, response := upgrade(t, w)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
}

// TestRemedyForAnUpstreamWithOnlyHTTP2: the log has it if the upstream accepts connections and has never answered. A gRPC server closes
// connections that begin with HTTP/1.1, with or without frames of HTTP/2 before that.
func TestRemedyForAnUpstreamWithOnlyHTTP2(t *testing.T) {
	for upstream, logged := range map[string]bool{
		sends(t, ""): true,
		sends(t, frame(settingsFrame, 0, 0, "\x00\x03\x00\x00\x00\x64")): true,
		"http://" + unusedAddress(t):                                     false,
	} {
		w := startTestServer(t, oneByIP, at(t, upstream))
		require.Equal(t, http.StatusBadGateway, fetch(t, w.proxyURL("/")).StatusCode)
		require.Contains(t, w.logged.String(), "the upstream failed")
		require.Equal(t, logged, strings.Contains(w.logged.String(), "let it offer HTTP/2 over TLS and write https:// in --upstream"), upstream)
	}
	w := startTestServer(t, oneByIP, withUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fail" {
			panic(http.ErrAbortHandler)
		}
	}))
	require.Equal(t, http.StatusOK, fetch(t, w.proxyURL("/")).StatusCode)
	require.Equal(t, http.StatusBadGateway, fetch(t, w.proxyURL("/fail")).StatusCode)
	require.NotContains(t, w.logged.String(), "remedy=\"if the upstream speaks")
}

func TestHeadersToTheUpstream(t *testing.T) {
	tracetest.Answers(t, "testdata/upstream_headers.txt", func(question string) string {
		seen := make(chan http.Header, 1)
		words := strings.Split(question, " | ")
		rules := strings.ReplaceAll(words[0], "], ", "]\n") + oneByIP
		w := startTestServer(t, rules, withUpstream(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
		sent := []string{"Host", "shop.example"}
		for _, field := range words[2:] {
			name, value, _ := strings.Cut(field, ": ")
			sent = append(sent, name, value)
		}
		fetch(t, w.proxyURL("/"), sent...)
		require.Contains(t, w.decide("peek", `{"key":"`+words[1]+`"}`).body, `"remaining":2`, question)
		got := <-seen
		var fields strings.Builder
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if name != "Accept-Encoding" && name != "User-Agent" {
				fmt.Fprintf(&fields, "\n%s: %s", name, strings.Join(got[name], " | "))
			}
		}
		return fields.String()
	})
}

// TestForgedHeadersAreRemoved: all spellings are removed, and no other headers.
func TestForgedHeadersAreRemoved(t *testing.T) {
	tracetest.Answers(t, "testdata/headers.txt", func(name string) string {
		left := func(forged bool) int {
			h := http.Header{name: {"6.6.6.6"}}
			dropForged(h, nil, func(string) bool { return forged })
			return len(h)
		}
		return map[[2]int]string{{1, 1}: "kept", {1, 0}: "removed if the peer is not trusted", {0, 0}: "removed"}[[2]int{left(false), left(true)}]
	})
}

// TestOneSpellingOfAKeyIsPassedOn: CGI programs read X_api_key as X-Api-Key. So a client could get a new limit with each value of the other
// spelling.
func TestOneSpellingOfAKeyIsPassedOn(t *testing.T) {
	seen := make(chan http.Header, 1)
	w := startTestServer(t, "\nrules: [{name: a, policy: gcra 9/h, by: header:X-Api-Key}, {name: b, policy: gcra 9/h, by: [ip, header:X_team]}]\n",
		withUpstream(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	fetch(t, w.proxyURL("/"), "X-Api-Key", "1", "x_API.key", "2", "X_api_key", "3", "X_Team", "4", "X-Team", "5", "X_other", "6")
	got := <-seen
	for name, values := range map[string][]string{
		"X-Api-Key": {"1"}, "X_api.key": nil, "X_api_key": nil, "X_team": {"4"}, "X-Team": nil, "X_other": {"6"},
	} {
		require.Equal(t, values, got[name], name)
	}
}

const trustingLoopback = "trusted: [127.0.0.1]\n" + oneByIP

// TestAWrongTrustedListIsLoggedAndCounted: the log has the peer and the remedy.
func TestAWrongTrustedListIsLoggedAndCounted(t *testing.T) {
	for name, c := range map[string]struct {
		rules, field, value, reason, log string
	}{
		"untrusted":            {oneByIP, "X-Forwarded-For", "203.0.113.7", untrustedPeer, `not trusted" peer=127.0.0.1 remedy="if the peer is your own proxy, add its address to trusted`},
		"untrusted, Forwarded": {oneByIP, "Forwarded", "for=203.0.113.7", untrustedPeer, `not trusted" peer=127.0.0.1 `},
		"garbage":              {trustingLoopback, "X-Forwarded-For", "SECRET", noAddress, `no client address" peer=127.0.0.1 remedy="configure each trusted proxy to append`},
		"garbage, Forwarded":   {"forwarded: true\n" + trustingLoopback, "Forwarded", "for=SECRET", noAddress, `no client address" peer=127.0.0.1 `},
		"right":                {trustingLoopback, "X-Forwarded-For", "203.0.113.7", "", ""},
		"direct":               {oneByIP, "X-Other", "x", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := startTestServer(t, c.rules, withUpstream(t, hello))
			for _, want := range []int{200, 200, 200, 429, 429} {
				require.Equal(t, want, fetch(t, w.proxyURL("/"), c.field, c.value).StatusCode)
			}
			metrics := fetch(t, w.apiURL("/metrics")).body
			for _, reason := range []string{untrustedPeer, noAddress} {
				count := map[bool]int{true: 5}[reason == c.reason]
				require.Contains(t, metrics, fmt.Sprintf("sluice_forwarding_faults_total{reason=%q} %d\n", reason, count))
			}
			require.Contains(t, w.logged.String(), c.log)
			require.NotContains(t, w.logged.String(), "SECRET")
			require.Equal(t, map[bool]int{true: 1}[c.log != ""], strings.Count(w.logged.String(), " peer="), w.logged.String())
		})
	}
}

// TestServerWarnsThatNoProxyIsTrusted: --log-level warn shows it too.
func TestServerWarnsThatNoProxyIsTrusted(t *testing.T) {
	const message = `level=WARN msg="` + rules.NoTrustedProxy + `" rules=`
	for text, want := range map[string]int{oneByIP: 2, trustingLoopback: 0} { // at the start and at the reload
		w := startTestServer(t, text, withUpstream(t, hello))
		require.NoError(t, w.Reload(t.Context()))
		require.Eventually(t, func() bool { return strings.Count(w.logged.String(), message) == want }, testTimeout, time.Millisecond, text)
	}
	w := startTestServer(t, oneByIP)
	require.NoError(t, w.Reload(t.Context()))
	require.NotContains(t, w.logged.String(), message, "without an upstream")
}
