package serve

// These tests promise what a request to the proxy costs if that is known only after its response.

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/sluicetest"
)

const failures = `
rules:
  - {name: failures, policy: fixedwindow 2/24h, by: ip, paths: [/login], count: [401, 403, 5xx]}
  - {name: client, policy: gcra 1000/h, by: ip}
`

// remaining returns the remaining units of the rules for a request to the path.
func (w *testServer) remaining(path string) (left []int64) {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodGet, path, nil)
	require.NoError(w.t, err)
	r.RemoteAddr = "127.0.0.1:1"
	d, err := w.current.Load().proxy.Peek(w.t.Context(), r)
	require.NoError(w.t, err)
	for _, result := range d.Results {
		left = append(left, result.Remaining)
	}
	return left
}

// answer is an upstream that sends the status of the query.
func answer(w http.ResponseWriter, r *http.Request) {
	status, _ := strconv.Atoi(r.URL.RawQuery)
	w.WriteHeader(status)
}

func TestOnlyCountedStatusesAreCharged(t *testing.T) {
	w := startTestServer(t, failures, withUpstream(t, answer))
	for _, c := range []struct{ status, left int }{{200, 2}, {404, 2}, {302, 2}, {200, 2}, {401, 1}, {200, 1}, {403, 0}} {
		require.Equal(t, c.status, call(t, http.MethodHead, w.proxyURL("/login?"+strconv.Itoa(c.status)), nil).StatusCode)
		require.Eventually(t, func() bool { return w.remaining("/login")[0] == int64(c.left) }, testTimeout, time.Millisecond,
			"the response to a HEAD can come before it is settled")
	}
	denied := fetch(t, w.proxyURL("/login?200"))
	require.Equal(t, http.StatusTooManyRequests, denied.StatusCode)
	require.Contains(t, denied.body, `"violated-policies":["failures"]`)
	require.Equal(t, http.StatusUnauthorized, fetch(t, w.proxyURL("/other?401")).StatusCode, "the rule is for another path")
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, "sluice_decisions_total")
}

// TestRequestsWithoutAResponse: the upstream may have done its work, so a client must not get the charge back by ending its request. And a
// client that ends its request is no failure of the upstream. A rule that counts statuses sees that of the proxy.
func TestRequestsWithoutAResponse(t *testing.T) {
	const settled = `
rules:
  - {name: success, policy: fixedwindow 9/24h, count: [200]}
  - {name: guesses, policy: fixedwindow 9/24h, count: [401, 403]}
  - {name: both, policy: fixedwindow 9/24h, count: [404, 5xx]}
  - {name: failures, policy: fixedwindow 9/24h, count: 5xx}
  - {name: timeouts, policy: fixedwindow 9/24h, count: 504}
  - {name: tokens, policy: fixedwindow 9/24h, cost: {estimate: 2, actual: header:X-Tokens-Used}}
`
	const broken = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nbroken\r\n"
	get := func(path string) string { return "GET /" + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	for _, c := range []struct {
		name, request string
		status        int // 0 if the client leaves when the upstream has the request
		timeout       time.Duration
		left          []int64
		logged        string
	}{
		{"the client leaves", get("held"), 0, 0, []int64{8, 8, 8, 9, 9, 7}, "the client closed the connection"},
		{"the body is broken", broken, 400, 0, []int64{8, 8, 8, 9, 9, 7}, "a request body ended early"},
		{"the upstream fails", get("fails"), 502, 0, []int64{8, 8, 8, 8, 9, 7}, "the upstream failed"},
		{"the upstream refuses connections", get("refused"), 502, 0, []int64{9, 9, 8, 8, 9, 9}, "the upstream failed"},
		{"the upstream has no valid certificate", get("untrusted"), 502, 0, []int64{9, 9, 8, 8, 9, 9}, "the upstream failed"},
		{"the upstream is too slow", get("held"), 504, time.Millisecond, []int64{8, 8, 8, 8, 8, 7}, "the upstream failed"},
	} {
		for _, rules := range []string{settled, oneByIP} {
			t.Run(fmt.Sprint(c.name, rules == settled), func(t *testing.T) {
				h := newHeld()
				w := startTestServer(t, rules, withUpstream(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if r.URL.Path == "/fails" {
						panic(http.ErrAbortHandler)
					}
					h.ServeHTTP(w, r)
				}), func(o *Options) {
					o.UpstreamTimeout = c.timeout
					switch {
					case strings.HasPrefix(c.request, "GET /refused"):
						o.Upstream = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
					case strings.HasPrefix(c.request, "GET /untrusted"):
						tls := httptest.NewTLSServer(http.NotFoundHandler())
						t.Cleanup(tls.Close)
						o.Upstream, _ = url.Parse(tls.URL)
					}
				})
				conn, reader := sendText(t, w, c.request)
				if c.status == 0 {
					<-h.arrived
					conn.Close()
				} else {
					response := readResponse(t, reader)
					body := contentOf(t, response.Body)
					require.Equal(t, c.status, response.StatusCode)
					require.Equal(t, "application/problem+json", response.Header.Get("Content-Type"))
					require.Equal(t, c.status > 500, strings.Contains(body, `"applied":"yes"`))
					require.Equal(t, rules != settled, strings.Contains(body, "; the cost of the request is not refunded"))
					require.Equal(t, rules != settled, response.Header.Get("RateLimit") == `"client";r=2;t=1200`)
				}
				if rules == settled {
					require.Eventually(t, func() bool { return slices.Equal(c.left, w.remaining("/")) }, testTimeout, time.Millisecond)
				}
				require.Eventually(t, func() bool { return strings.Contains(w.logged.String(), c.logged) }, testTimeout, time.Millisecond)
				for _, status := range []int{502, 504} {
					line := fmt.Sprintf(`sluice_upstream_failures_total{status="%d"} %d`, status, map[bool]int{true: 1}[status == c.status])
					require.Contains(t, fetch(t, w.apiURL("/metrics")).body, line)
				}
			})
		}
	}
}

func TestUpstreamReportsTheActualCost(t *testing.T) {
	const used = "X-RateLimit-Used" // a name like those of the limits
	const tokens = `
rules:
  - {name: tokens, policy: fixedwindow 1000/24h, by: ip, cost: {estimate: 500, actual: header:` + used + `}}
`
	w := startTestServer(t, tokens, withUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		switch name, value, _ := strings.Cut(r.URL.RawQuery, "="); name {
		case "header":
			w.Header().Set(used, value)
		case "trailer":
			w.Header().Set("Trailer", used)
			_, _ = io.WriteString(w, "a stream")
			w.Header().Set(used, value)
		case "unannounced":
			_, _ = io.WriteString(w, "a stream")
			_ = http.NewResponseController(w).Flush()
			w.Header().Set(http.TrailerPrefix+used, value)
		}
	}))
	require.Equal(t, "20", fetch(t, w.proxyURL("/?header=20")).Header.Get(used))
	require.Equal(t, []int64{980}, w.remaining("/"))
	require.Equal(t, "30", fetch(t, w.proxyURL("/?trailer=30")).Trailer.Get(used))
	require.Equal(t, []int64{950}, w.remaining("/"))
	require.Equal(t, "10", fetch(t, w.proxyURL("/?unannounced=10")).Trailer.Get(used))
	require.Equal(t, []int64{940}, w.remaining("/"))
	require.NotContains(t, w.logged.String(), "does not report its cost")

	fetch(t, w.proxyURL("/?header=secret"))
	require.Equal(t, []int64{440}, w.remaining("/"), "the estimate")
	require.Contains(t, w.logged.String(), `level=WARN msg="a response does not report its cost, so the estimate stays charged; set the header in the upstream, as a whole number" rule=tokens header=X-Ratelimit-Used `+
		`problem="the header is not one whole number of at least 0"`)
	require.NotContains(t, w.logged.String(), "secret")
	require.Equal(t, http.StatusTooManyRequests, fetch(t, w.proxyURL("/")).StatusCode)
}

// A program that asks can neither release what it holds nor show the response.
func TestDecisionServiceKnowsNoRulesForTheProxyAlone(t *testing.T) {
	const reason = "the decision service sees neither the response nor the end of a request"
	for rules, rule := range map[string]string{oneAtATime: "running", failures: "failures"} {
		_, err := newTestServer(t, rules)
		require.EqualError(t, err, "rule "+rule+": "+reason+"; use the proxy (--upstream), or give the rule a rate such as gcra 100/m and remove count and actual")
		w := startTestServer(t, rules, withUpstream(t, hello))
		for range 3 {
			require.Contains(t, w.decide("allow", `{"key":"127.0.0.1"}`).body, `{"allowed":true,"rule":"client",`)
		}
		for op := range operations {
			a := w.decide(string(op), `{"key":"127.0.0.1","rule":["client","`+rule+`"]}`)
			require.Equal(t, http.StatusNotFound, a.StatusCode)
			require.Contains(t, a.body, `"detail":"rule \"`+rule+`\" is for the proxy alone: `+reason+`; the member rules lists the names of all other rules","field":"rule","rules":["client"]`)
		}
		for _, alone := range []string{"policy: inflight 1 ttl=30s", "policy: gcra 1/s, count: 401", "policy: gcra 1000/m, cost: {estimate: 5, actual: header:used}"} {
			w.rules.Store("rules: [{name: alone, by: header:X, " + alone + "}]")
			require.NoError(t, w.Reload(t.Context()))
			a := w.decide("allow", `{"key":""}`)
			require.Equal(t, http.StatusNotFound, a.StatusCode)
			require.Contains(t, a.body, `"detail":"all rules are for the proxy alone: `+reason+`","field":"rule"`)
		}
	}
}

// These tests promise that a request to the proxy counts under a rule such as "inflight 20 ttl=30s" until its response has ended.

const oneAtATime = `
rules:
  - {name: running, policy: inflight 1 ttl=30s, by: ip}
  - {name: client, policy: gcra 1000/h, by: ip}
`

func TestProxyLimitsRequestsAtTheSameTime(t *testing.T) {
	h := newHeld()
	w := startTestServer(t, oneAtATime, withUpstream(t, h.ServeHTTP))
	failed := h.begin(w)
	denied := fetch(t, w.proxyURL("/"))
	require.Equal(t, http.StatusTooManyRequests, denied.StatusCode)
	require.Equal(t, `"running";r=0;t=1, "client";r=999;t=4`, denied.Header.Get("RateLimit"))
	close(h.release)
	require.NoError(t, <-failed)
	require.Equal(t, 5, w.allowed(5), "each request ends before the next")
	require.EqualValues(t, 1, w.remaining("/")[0])
}

func TestWebSocketsCountUntilTheyClose(t *testing.T) {
	w := startTestServer(t, oneAtATime, withUpstream(t, echo))
	conn, reader, response := upgrade(t, w)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	ping(t, conn, reader)
	require.Equal(t, http.StatusTooManyRequests, fetch(t, w.proxyURL("/")).StatusCode)
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { return w.remaining("/")[0] == 1 }, testTimeout, time.Millisecond)
}

// Otherwise they would count until their TTL is over, also for the next process.
func TestShutdownReleasesTheUnitsOfRequestsThatItCuts(t *testing.T) {
	const rules = "\nrules: [{name: running, policy: inflight 10 ttl=30s}]\n"
	file := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	for name, want := range map[string]error{"requests": errCut, "WebSockets": nil} {
		t.Run(name, func(t *testing.T) {
			h := newHeld()
			upgrades := name == "WebSockets"
			upstream := withUpstream(t, h.ServeHTTP)
			if upgrades {
				upstream = withUpstream(t, echo)
			}
			w := startTestServer(t, rules, upstream, on(file), func(o *Options) { o.Drain = time.Millisecond })
			for range 10 {
				if upgrades {
					upgrade(t, w)
				} else {
					h.begin(w)
				}
			}
			w.stop()
			require.ErrorIs(t, w.ended(), want)
			next := startTestServer(t, rules, withUpstream(t, hello), on(file))
			require.Equal(t, `"running";r=9`, fetch(t, next.proxyURL("/")).Header.Get("RateLimit"))
		})
	}
}

// Others could get the units then, so the request must not go on.
func TestRequestsEndIfTheStoreFailsLongerThanTheTTL(t *testing.T) {
	for _, begun := range []bool{false, true} {
		var log bytes.Buffer
		store := new(sluicetest.Store)
		hangs := func(w http.ResponseWriter, r *http.Request) {
			if begun {
				_ = http.NewResponseController(w).Flush()
			}
			store.Fail(nil)
			<-r.Context().Done()
		}
		limitedProxy{oneAtATime, store, &log}.run(t, hangs, func(t *testing.T, front *pipes) {
			began := time.Now()
			response, _ := front.exchange(t, "GET / HTTP/1.1\r\nHost: x", func(io.Writer) {})
			body, err := io.ReadAll(response.Body)
			require.InDelta(t, 30*time.Second, time.Since(began), float64(time.Second))
			if begun {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			} else {
				require.Equal(t, http.StatusBadGateway, response.StatusCode)
				require.Contains(t, string(body), "the units that the request held are not in the store of the limits any more, so the request was ended before the upstream answered; the cost of the request is not refunded")
			}
			synctest.Wait()
			require.Contains(t, log.String(), `level=WARN msg="the units that a request held are not in the store any more, so the request was ended"`)
			require.Contains(t, log.String(), `rule \"running\" has a ttl of 30s`)
		})
	}
}
