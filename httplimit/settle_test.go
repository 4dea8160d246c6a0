// These tests promise what a request costs in the end if that is known only after the response.
package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// serveOne serves a request in a goroutine of its own. It returns what the handler panicked with.
func serveOne(h http.Handler, w http.ResponseWriter, r *http.Request) (panicked any) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { panicked = recover() }()
		h.ServeHTTP(w, r)
	}()
	<-ended
	return panicked
}

func TestSettleGetsTheResponse(t *testing.T) {
	for name, test := range map[string]struct {
		serve   http.HandlerFunc
		status  int
		written int64
		panics  any
	}{
		"nothing":           {func(http.ResponseWriter, *http.Request) {}, 200, 0, nil},
		"a content":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello"); w.WriteHeader(500) }, 200, 5, nil},
		"a switch":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(101) }, 101, 0, nil},
		"a status":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); w.WriteHeader(500) }, 404, 0, nil},
		"an interim status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(401) }, 401, 0, nil},
		"a flush":           {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); w.WriteHeader(500) }, 200, 0, nil},
		"a copy": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(strings.NewReader("abc"), 9))
			w.WriteHeader(500)
		}, 200, 3, nil},
		"a copy of nothing": {func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.Copy(w, iotest.ErrReader(io.ErrUnexpectedEOF))
			http.Error(w, err.Error(), 502)
		}, 502, 15, nil},
		"a flush to a client that is gone": {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); w.WriteHeader(500) }, 200, 0, nil},
		"a panic":                          {func(http.ResponseWriter, *http.Request) { panic("a fault") }, 500, 0, "a fault"},
		"an exit":                          {func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, 500, 0, nil},
		"a panic, too late":                {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); panic(http.ErrAbortHandler) }, 201, 0, http.ErrAbortHandler},
		"a hijack": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			http.Error(w, "too late", 500)
		}, 101, 0, nil},
	} {
		limiter := newLimiter(t, limiterOptions{}, nil, twoAtOnce()...)
		calls := 0
		h := httplimit.Handler(limiter, test.serve, httplimit.Options{Settle: func(r *http.Request, status int, written int64) int64 {
			calls++
			require.Equal(t, test.status, status, name)
			require.Equal(t, test.written, written, name)
			require.Equal(t, "/a", r.URL.Path)
			response, found := httplimit.ResponseTo(r)
			require.True(t, found)
			require.Equal(t, test.status, response.Status)
			require.NotEmpty(t, response.Header.Get("RateLimit"))
			return 4
		}})
		var w http.ResponseWriter = httptest.NewRecorder()
		if name == "a hijack" || name == "a flush to a client that is gone" {
			conn, _ := net.Pipe()
			w = pipeWriter{w, conn}
		}
		panicked := serveOne(h, w, httptest.NewRequest("GET", "/a", nil))
		require.Equal(t, test.panics, panicked, name)
		require.Equal(t, 1, calls, name)
		require.Equal(t, []int64{2, 6}, unitsLeft(t, limiter), "%s: held units are released", name)
	}
}

func TestSettleRefundsOrChargesARequest(t *testing.T) {
	for storeName, store := range map[string]storage.Store{"in memory": new(memory.Store), "by round trips": failing(nil)} {
		left := int64(10)
		limiter := newLimiter(t, limiterOptions{}, store, rule("daily", "fixedwindow 10/d"))
		for _, cost := range []int64{0, 1, 3, 0, 10} {
			h := httplimit.Handler(limiter, hello, httplimit.Options{Settle: func(*http.Request, int, int64) int64 {
				require.Equal(t, left-1, unitsLeft(t, limiter)[0], "a call is charged before")
				return cost
			}})
			require.Equal(t, http.StatusOK, respond(h, httptest.NewRequest("GET", "/", nil)).StatusCode)
			left -= cost
			require.Equal(t, left, unitsLeft(t, limiter)[0], "%s, %d", storeName, cost)
		}
	}
}

// Many handlers remove the credentials of a request before they pass it on.
func TestHandlerThatRemovesTheKeyPaysTheActualCost(t *testing.T) {
	for _, cost := range []int64{0, 7} {
		settled := httplimit.KeyByHeader("X-Api-Key").OrDeny(sluice.Rule[*http.Request]{Name: "key", Spec: "fixedwindow 10/d", Cost: func(r *http.Request) int64 {
			if _, found := httplimit.ResponseTo(r); found {
				return cost
			}
			return 2
		}})
		limiter := newLimiter(t, limiterOptions{}, nil, settled)
		h := httplimit.Handler(limiter, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { r.Header.Del("X-Api-Key") }), httplimit.Options{SettleRules: true})
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Api-Key", "ann")
		require.Equal(t, http.StatusOK, respond(h, r).StatusCode)
		r.Header.Set("X-Api-Key", "ann")
		d, err := limiter.Peek(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, 10-cost, d.Remaining)
	}
}

// Its request was charged nothing.
func TestDeniedRequestSettlesNothing(t *testing.T) {
	exhausted := limiterOf(t, nil, "fixedwindow 1/d")
	_, err := exhausted.Charge(t.Context(), httptest.NewRequest("GET", "/", nil), 1)
	require.NoError(t, err)
	never := func(*http.Request, int, int64) int64 { panic("not called") }
	for want, limiter := range map[int]*sluice.Limiter[*http.Request]{
		http.StatusTooManyRequests:    exhausted,
		http.StatusServiceUnavailable: limiterOf(t, failing(storage.NotApplied(io.ErrUnexpectedEOF)), "gcra 1/s"),
	} {
		denied := respond(httplimit.Handler(limiter, hello, httplimit.Options{Settle: never}), httptest.NewRequest("GET", "/", nil))
		require.Equal(t, want, denied.StatusCode)
	}
}

// A settlement that failed is not followed by an attempt to release, so the client waits for one timeout.
func TestSlowStoreDelaysTheEndOfTheResponseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Bool
		store := hooked{new(memory.Store), func(ctx context.Context) error {
			if stuck.Load() {
				<-ctx.Done()
			}
			return ctx.Err()
		}}
		limiter := newLimiter(t, limiterOptions{Timeout: time.Second}, store, twoAtOnce()...)
		var began time.Time
		h := httplimit.Handler(limiter, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			stuck.Store(true)
			began = time.Now()
		}), httplimit.Options{Settle: func(*http.Request, int, int64) int64 { return 3 }})
		respond(h, httptest.NewRequest("GET", "/", nil))
		require.Equal(t, time.Second, time.Since(began))
	})
}

// The call stays charged.
func TestFaultySettleReleasesHeldUnits(t *testing.T) {
	for name, actual := range map[string]func() int64{
		"a negative cost": func() int64 { return -1 },
		"a panic":         func() int64 { panic("a fault") },
	} {
		settled := twoAtOnce()
		settled[1].Cost = func(r *http.Request) int64 {
			if _, found := httplimit.ResponseTo(r); found {
				return actual()
			}
			return 1
		}
		for _, test := range []struct {
			rules   []sluice.Rule[*http.Request]
			options httplimit.Options
		}{
			{twoAtOnce(), httplimit.Options{Settle: func(*http.Request, int, int64) int64 { return actual() }}},
			{settled, httplimit.Options{SettleRules: true}},
		} {
			limiter := newLimiter(t, limiterOptions{}, failing(nil), test.rules...)
			h := httplimit.Handler(limiter, hello, test.options)
			panicked := serveOne(h, httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
			require.Equal(t, name == "a panic", panicked != nil)
			require.Equal(t, []int64{2, 9}, unitsLeft(t, limiter), name)
		}
	}
}

// A client must not avoid the actual cost by leaving.
func TestSettleWorksAfterTheClientIsGone(t *testing.T) {
	limiter := newLimiter(t, limiterOptions{}, failing(nil), twoAtOnce()...)
	ctx, leave := context.WithCancel(t.Context())
	h := httplimit.Handler(limiter, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leave() }),
		httplimit.Options{Settle: func(r *http.Request, _ int, _ int64) int64 {
			require.NoError(t, r.Context().Err())
			return 5
		}})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	require.Equal(t, []int64{2, 5}, unitsLeft(t, limiter))
}

// Handlers use them on the writer itself or by http.ResponseController.
func TestSettledHandlersKeepTheAbilitiesOfTheirWriter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file.txt")
	require.NoError(t, os.WriteFile(file, []byte("some text"), 0o600))
	limiter := limiterOf(t, nil, "gcra 1000/s")
	var written atomic.Int64
	server := httptest.NewServer(httplimit.Handler(limiter, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		require.NoError(t, control.SetWriteDeadline(time.Now().Add(time.Hour)))
		if r.URL.Path == "/hijack" {
			conn, _, err := control.Hijack()
			require.NoError(t, err)
			_, err = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
			require.NoError(t, errors.Join(err, conn.Close()))
			return
		}
		require.NotNil(t, w.(interface{ CloseNotify() <-chan bool }).CloseNotify(), "gin calls it without a check")
		http.ServeFile(w, r, file)
		require.NoError(t, control.Flush())
	}), httplimit.Options{Settle: func(_ *http.Request, _ int, n int64) int64 { written.Store(n); return 1 }}))
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, errors.Join(err, response.Body.Close()))
	require.Equal(t, "some text", string(text))
	response, err = server.Client().Get(server.URL + "/hijack")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNoContent, response.StatusCode)

	withoutFlush := httplimit.Handler(limiter, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		require.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
		_, _, err := w.(http.Hijacker).Hijack()
		require.ErrorIs(t, err, http.ErrNotSupported)
		require.Nil(t, w.(interface{ CloseNotify() <-chan bool }).CloseNotify())
		w.WriteHeader(http.StatusTeapot)
	}), httplimit.Options{Settle: func(_ *http.Request, status int, _ int64) int64 {
		require.Equal(t, http.StatusTeapot, status)
		return 1
	}})
	withoutFlush.ServeHTTP(&discardWriter{header: make(http.Header)}, httptest.NewRequest("GET", "/", nil))
}

// These tests promise that a request holds its units under a rule such as "inflight 20 ttl=30s" until its handler has ended, however it
// ends, and what clients see of such a rule.

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

// pipeWriter is a ResponseWriter of net/http whose client is gone. Its connection can be hijacked.
type pipeWriter struct {
	http.ResponseWriter
	conn net.Conn
}

func (w pipeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.conn, nil, nil }

func (w pipeWriter) FlushError() error { return io.ErrClosedPipe }

func (w pipeWriter) Write([]byte) (int, error) { return 0, http.ErrHijacked }

func TestUnitsAreHeldUntilTheHandlerEnds(t *testing.T) {
	for storeName, store := range map[string]storage.Store{"in memory": new(memory.Store), "by round trips": failing(nil)} {
		limiter := newLimiter(t, limiterOptions{}, store, twoAtOnce()...)
		daily := int64(10)
		var leave context.CancelFunc
		for name, end := range map[string]func(w http.ResponseWriter, r *http.Request){
			"returns": func(http.ResponseWriter, *http.Request) {},
			"panics":  func(http.ResponseWriter, *http.Request) { panic("a fault") },
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

// The server does not see what the handler puts into a request with another context.
func TestFilesOfFormsAreRemoved(t *testing.T) {
	const form = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file.txt\"\r\n\r\nsome text\r\n--x--\r\n"
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // on Windows
	for _, o := range []httplimit.Options{{}, {SettleRules: true}} {
		server := httptest.NewServer(httplimit.Handler(newLimiter(t, limiterOptions{}, nil, twoAtOnce()...), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			assert.NoError(t, r.ParseMultipartForm(0)) // holds no file in memory
			files, err := os.ReadDir(dir)
			assert.NoError(t, err)
			assert.Len(t, files, 1)
		}), o))
		response, err := server.Client().Post(server.URL, "multipart/form-data; boundary=x", strings.NewReader(form))
		require.NoError(t, errors.Join(err, response.Body.Close()))
		server.Close() // waits until the request has ended
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, files)
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
