// These tests promise that a request holds its units under a rule such as "inflight 20 ttl=30s" until its handler has ended, however it
// ends, and what clients see of such a rule.
package httplimit_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// twoAtOnce are 2 requests at the same time, and 10 a day.
func twoAtOnce() []sluice.Rule[*http.Request] {
	return rules(rule("running", "inflight 2 ttl=30s"), rule("daily", "fixedwindow 10/d"))
}

// unitsLeft returns the remaining units of each rule.
func unitsLeft(t *testing.T, limiter *sluice.Limiter[*http.Request]) (left []int64) {
	t.Helper()
	d, err := limiter.Peek(context.Background(), httptest.NewRequest("GET", "/", nil))
	require.NoError(t, err)
	for _, r := range d.Results {
		left = append(left, r.Remaining)
	}
	return left
}

// pipeWriter is a ResponseWriter whose connection can be hijacked.
type pipeWriter struct {
	http.ResponseWriter
	conn net.Conn
}

func (w pipeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.conn, nil, nil }

func TestUnitsAreHeldUntilTheHandlerEnds(t *testing.T) {
	for storeName, store := range map[string]storage.Store{"in memory": new(memory.Store), "by round trips": failing(nil)} {
		limiter := newLimiter(t, limiterOptions{}, store, twoAtOnce()...)
		daily := int64(10)
		var leave context.CancelFunc
		for name, end := range map[string]func(w http.ResponseWriter, r *http.Request){
			"returns": func(http.ResponseWriter, *http.Request) {},
			"answers": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
			"panics":  func(http.ResponseWriter, *http.Request) { panic("a fault") },
			"aborts":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"exits":   func(http.ResponseWriter, *http.Request) { runtime.Goexit() },
			"hijacks": func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				require.NoError(t, err)
				require.NoError(t, conn.Close())
			},
			"loses its client": func(http.ResponseWriter, *http.Request) {
				leave()
				require.Equal(t, int64(1), unitsLeft(t, limiter)[0])
			},
		} {
			served := false
			h := httplimit.Handler(limiter, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.Equal(t, int64(1), unitsLeft(t, limiter)[0])
				served = true
				end(w, r)
			}), httplimit.Options{})
			conn, _ := net.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			leave = cancel
			serveOne(h, pipeWriter{httptest.NewRecorder(), conn}, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
			cancel()
			daily--
			require.True(t, served)
			require.Equal(t, []int64{2, daily}, unitsLeft(t, limiter), "%s, %s: the rate stays charged", storeName, name)
		}
	}
}

func TestUnitsAreHeldLongerThanTheirTTLUntilTheyAreLost(t *testing.T) {
	refund := func(*http.Request, int, int64) int64 { return 0 }
	for daily, o := range map[int64]httplimit.Options{9: {}, 10: {Settle: refund}} {
		synctest.Test(t, func(t *testing.T) {
			var down atomic.Bool
			store := hooked{new(memory.Store), func(context.Context) error {
				if down.Load() {
					return storage.NotApplied(io.ErrUnexpectedEOF)
				}
				return nil
			}}
			limiter := newLimiter(t, limiterOptions{}, store, twoAtOnce()...)
			h := httplimit.Handler(limiter, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				time.Sleep(5 * time.Minute)
				require.NoError(t, r.Context().Err())
				require.Equal(t, int64(1), unitsLeft(t, limiter)[0])
				if r.URL.Path == "/lost" {
					down.Store(true)
					lost := time.Now()
					<-r.Context().Done()
					require.ErrorIs(t, context.Cause(r.Context()), sluice.ErrHoldLost)
					require.InDelta(t, 30*time.Second, time.Since(lost), float64(10*time.Second))
				}
			}), o)
			require.Equal(t, http.StatusOK, respond(h, httptest.NewRequest("GET", "/", nil)).StatusCode)
			require.Equal(t, []int64{2, daily}, unitsLeft(t, limiter))
			respond(h, httptest.NewRequest("GET", "/lost", nil))
			down.Store(false)
			time.Sleep(time.Minute) // the circuit breaker closes
			require.Equal(t, []int64{2, daily - 1}, unitsLeft(t, limiter), "the store failed, so the call stays charged")
		})
	}
}

// During an outage with sluice.FailOpen nothing is held.
func TestRequestsOfAnOutageHoldNothing(t *testing.T) {
	h := outage(t, sluice.FailOpen, twoAtOnce()...)
	for range 5 {
		require.Equal(t, http.StatusOK, respond(h, httptest.NewRequest("GET", "/", nil)).StatusCode)
	}
	h = outage(t, sluice.FailLocal, twoAtOnce()...)
	for range 5 {
		require.Equal(t, http.StatusOK, respond(h, httptest.NewRequest("GET", "/", nil)).StatusCode, "each has released its local unit")
	}
}

// serveWhileBusy answers a request while n others are in their handler.
func serveWhileBusy(t *testing.T, limiter *sluice.Limiter[*http.Request], n int, o httplimit.Options, r *http.Request) *http.Response {
	t.Helper()
	for range n {
		_, _, release, err := limiter.Hold(t.Context(), costing(1))
		require.NoError(t, err)
		defer release()
	}
	return respond(httplimit.Handler(limiter, hello, o), r)
}

func TestFieldsOfHeldUnits(t *testing.T) {
	client := sluice.Rule[*http.Request]{Name: "client", PolicyFor: func(*http.Request) (algo.Policy, error) { return sluice.MustPolicy("inflight 2 ttl=30s"), nil }}
	shadow := rule("shadow", "inflight 1 ttl=30s")
	shadow.Shadow = true
	for name, test := range map[string]struct {
		rules                                []sluice.Rule[*http.Request]
		busy                                 int
		cost                                 int64
		status                               int
		retryAfter, limits, policies, legacy string
	}{
		"allowed":            {rules(client), 1, 1, 200, "", `"client";r=0`, `"client";q=2;qu="concurrent-requests"`, "0"},
		"denied":             {rules(client), 2, 1, 429, "1", `"client";r=0;t=1`, `"client";q=2;qu="concurrent-requests"`, "0"},
		"beside a rate":      {rules(client, rule("daily", "fixedwindow 9/d")), 2, 1, 429, "1", `"client";r=0;t=1, "daily";r=7;t=86400`, `"client";q=2;qu="concurrent-requests", "daily";q=9;w=86400`, "0"},
		"denied by both":     {rules(client, rule("daily", "fixedwindow 2/d")), 2, 1, 429, "86400", `"client";r=0;t=1, "daily";r=0;t=86400`, `"client";q=2;qu="concurrent-requests", "daily";q=2;w=86400`, "0"},
		"in shadow":          {rules(shadow, rule("daily", "fixedwindow 9/d")), 2, 1, 200, "", `"daily";r=6;t=86400`, `"daily";q=9;w=86400`, "6"},
		"short":              {rules(byCost("client", "inflight 2 ttl=100ms")), 2, 1, 429, "1", `"client";r=0;t=1`, `"client";q=2;qu="concurrent-requests"`, "0"},
		"above the capacity": {rules(byCost("client", "inflight 2 ttl=30s")), 0, 3, 422, "", `"client";r=2`, `"client";q=2;qu="concurrent-requests"`, "2"},
	} {
		bubble(t, name, func(t *testing.T) {
			limiter := newLimiter(t, limiterOptions{}, nil, test.rules...)
			response := serveWhileBusy(t, limiter, test.busy, httplimit.Options{Legacy: true}, costing(test.cost))
			require.Equal(t, test.status, response.StatusCode)
			require.Equal(t, test.retryAfter, response.Header.Get("Retry-After"))
			require.Equal(t, test.limits, response.Header.Get("RateLimit"))
			require.Equal(t, test.policies, response.Header.Get("RateLimit-Policy"))
			require.Equal(t, test.legacy, response.Header.Get("X-RateLimit-Remaining"))
			readFields(t, response.Header)
			if name == "denied" { // the client's own request has returned its unit by then, so it does not wait for the TTL
				require.Equal(t, strconv.FormatInt(time.Now().Add(time.Second).Unix(), 10), response.Header.Get("X-RateLimit-Reset"))
			}
			if test.status == http.StatusTooManyRequests {
				require.Contains(t, problemOf(t, response).Violated, "client")
			}
		})
	}
	limiter := newLimiter(t, limiterOptions{}, nil, byCost("size", "inflight 1000 ttl=30s"))
	response := serveWhileBusy(t, limiter, 0, httplimit.Options{Bytes: []string{"size"}}, costing(100))
	require.Equal(t, `"size";q=1000;qu="content-bytes"`, response.Header.Get("RateLimit-Policy"))
}

func TestRequestWithoutAKeyHoldsNothing(t *testing.T) {
	limiter := newLimiter(t, limiterOptions{}, nil, httplimit.KeyByHeader("K").OrDeny(rule("client", "inflight 1 ttl=30s")))
	response := serveWhileBusy(t, limiter, 0, httplimit.Options{}, costing(1))
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	require.Empty(t, response.Header.Get("Retry-After"))
	keyed := costing(1)
	keyed.Header.Set("K", "ann")
	for range 3 {
		require.Equal(t, http.StatusOK, serveWhileBusy(t, limiter, 0, httplimit.Options{}, keyed).StatusCode)
	}
}

func TestRefusalSaysHowLongUnitsCanBeHeld(t *testing.T) {
	var got httplimit.Refusal
	o := httplimit.Options{OnDenied: func(_ http.ResponseWriter, _ *http.Request, refusal httplimit.Refusal) { got = refusal }}
	limiter := newLimiter(t, limiterOptions{}, nil, twoAtOnce()...)
	serveWhileBusy(t, limiter, 2, o, costing(1))
	require.Equal(t, time.Second, got.RetryAfter)
	require.Equal(t, []string{"running"}, got.Violated)
	require.Greater(t, got.Decision.RetryAfter, 29*time.Second, "until they return by themselves")
}
