// These tests promise that Transport sends a request again only if MaxRetries allows it,
// the server answered 429, and nothing is lost or done twice by sending it again.
package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

// newDenying returns a Transport for a server that denies so many requests with 429 and these
// fields, and then answers 200. It counts the bodies of responses that are not closed.
func newDenying(denials int64, fields ...string) (c *transport, open *atomic.Int64) {
	open = new(atomic.Int64)
	var sent atomic.Int64
	c = newTransport(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		status := http.StatusOK
		if sent.Add(1) <= denials {
			status = http.StatusTooManyRequests
		}
		response, err := newResponse(status, fields...)
		open.Add(1)
		response.Body = &countedBody{strings.NewReader("why"), open}
		return response, err
	})
	return c, open
}

type countedBody struct {
	io.Reader
	open *atomic.Int64
}

func (b *countedBody) Close() error { b.open.Add(-1); return nil }

func TestRetryWaitsForTheServer(t *testing.T) {
	for name, test := range map[string]struct {
		denials    int64
		maxRetries int
		fields     []string
		status     int
		sent       []time.Duration
	}{
		"never by default":                     {1, 0, []string{"Retry-After", "7"}, 429, seconds(0)},
		"never if negative":                    {1, -1, []string{"Retry-After", "7"}, 429, seconds(0)},
		"after Retry-After":                    {2, 5, []string{"Retry-After", "7"}, 200, seconds(0, 7, 14)},
		"after t":                              {1, 5, []string{"RateLimit", `"a";r=0;t=3`}, 200, seconds(0, 3)},
		"after a backoff":                      {3, 5, nil, 200, seconds(0, 1, 3, 7)},
		"after a backoff if it names no pause": {3, 5, []string{"Retry-After", "0"}, 200, seconds(0, 1, 3, 7)},
		"at most MaxRetries":                   {9, 2, []string{"Retry-After", "7"}, 429, seconds(0, 7, 14)},
		"not without a denial":                 {0, 5, nil, 200, seconds(0)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, open := newDenying(test.denials, test.fields...)
				c.MaxRetries = test.maxRetries
				response := get(t, c, "http://example.com/")
				require.Equal(t, test.status, response.StatusCode)
				require.Equal(t, test.sent, c.times())
				require.EqualValues(t, 1, open.Load(), "only the caller's response is open")
				text, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				require.Equal(t, "why", string(text), "the caller can read the whole body")
				require.Zero(t, c.Pending())
			})
		})
	}
}

func TestOnlyDeniedAndRepeatableRequestsAreRetried(t *testing.T) {
	withBody := func() io.Reader { return strings.NewReader("hello") } // NewRequest sets GetBody
	stream := func() io.Reader { return io.MultiReader(withBody()) }
	none := func() io.Reader { return nil }
	for name, test := range map[string]struct {
		method  string
		body    func() io.Reader
		header  http.Header
		status  int
		retried bool
	}{
		"GET":                       {"GET", none, nil, 429, true},
		"no method":                 {"", none, nil, 429, true},
		"HEAD":                      {"HEAD", none, nil, 429, true},
		"DELETE":                    {"DELETE", none, nil, 429, true},
		"PUT":                       {"PUT", withBody, nil, 429, true},
		"PUT of a stream":           {"PUT", stream, nil, 429, false},
		"POST":                      {"POST", withBody, nil, 429, false},
		"PATCH":                     {"PATCH", none, nil, 429, false},
		"POST with a key":           {"POST", withBody, http.Header{"Idempotency-Key": {"k"}}, 429, true},
		"POST of a stream with key": {"POST", stream, http.Header{"Idempotency-Key": {"k"}}, 429, false},
		"503":                       {"GET", none, nil, 503, false},
		"500":                       {"GET", none, nil, 500, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bodies []string
				c := newTransport(func(r *http.Request) (*http.Response, error) {
					text := ""
					if r.Body != nil {
						read, err := io.ReadAll(r.Body)
						require.NoError(t, err)
						require.NoError(t, r.Body.Close())
						text = string(read)
					}
					if bodies = append(bodies, text); len(bodies) > 1 {
						return newResponse(200)
					}
					return newResponse(test.status, "Retry-After", "1")
				})
				c.MaxRetries = 1
				r, err := http.NewRequestWithContext(t.Context(), test.method, "http://example.com/", test.body())
				require.NoError(t, err)
				r.Method = test.method // NewRequest writes GET for an empty one
				for name, values := range test.header {
					r.Header[name] = values
				}
				original := r.Body
				response, err := c.RoundTrip(r)
				require.NoError(t, err)
				require.True(t, original == r.Body, "the caller's request is not changed")
				if !test.retried {
					require.Equal(t, test.status, response.StatusCode)
					require.Len(t, bodies, 1)
					return
				}
				require.Equal(t, http.StatusOK, response.StatusCode)
				require.Len(t, bodies, 2)
				require.Equal(t, bodies[0], bodies[1], "the whole body is sent again")
			})
		})
	}
}

// A context that ends before the pause does gets the 429, which says more than an error.
func TestRetryIsBoundedByTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, open := newDenying(9, "Retry-After", "7")
		c.MaxRetries = 5
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
		require.NoError(t, err)
		response, err := c.RoundTrip(r)
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
		require.Equal(t, seconds(0, 7), c.times(), "the third would be sent after the deadline")
		require.Equal(t, 7*time.Second, time.Since(c.began))
		require.EqualValues(t, 1, open.Load())
	})
	synctest.Test(t, func(t *testing.T) {
		c, open := newDenying(9, "Retry-After", "7")
		c.MaxRetries = 5
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		r, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
		require.NoError(t, err)
		_, err = c.RoundTrip(r)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Second, time.Since(c.began))
		require.Zero(t, open.Load())
		require.Zero(t, c.Pending())
	})
}

func TestRetryWithoutABodyReturnsTheDenial(t *testing.T) {
	c, open := newDenying(9, "Retry-After", "0")
	c.MaxRetries = 5
	r, b := request(t.Context(), t)
	r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("the file is gone") }
	response, err := c.RoundTrip(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	require.EqualValues(t, 1, open.Load())
	require.True(t, b.closed)
	require.Len(t, c.times(), 1)
}

func TestLimiterDecidesAboutEachRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newDenying(3, "Retry-After", "1")
		c.MaxRetries = 5
		calls := make(map[sluice.Op]int)
		c.Limiter = countingLimiter(t, nil, calls, rule("own", "fixedwindow 10/h"))
		require.Equal(t, http.StatusOK, get(t, c, "http://example.com/").StatusCode)
		require.Equal(t, map[sluice.Op]int{sluice.OpAllow: 4}, calls)
		require.EqualValues(t, 6, remaining(t, &c.Transport))
	})
}

// Many clients share a server that denies what exceeds its limit. All requests succeed.
func TestConcurrentRetriesAllSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(httplimit.Handler(limiterOf(t, nil, "gcra 20/s"), hello, httplimit.Options{}), 100*time.Millisecond)
		var all sync.WaitGroup
		for range 5 {
			client := &httplimit.Transport{Base: w, MaxRetries: 1000}
			for range 40 {
				all.Go(func() {
					require.Equal(t, http.StatusOK, get(t, client, "http://example.com/").StatusCode)
				})
			}
		}
		all.Wait()
		require.Equal(t, 200, w.statuses[http.StatusOK])
		require.Positive(t, w.statuses[http.StatusTooManyRequests], "the clients do not know of each other")
	})
}

func TestRetryUsesTheSameConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if requests++; requests < 3 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
		})}
		defer server.Close()
		listener := make(pipeListener)
		go func() { _ = server.Serve(listener) }()
		connections := 0
		base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			connections++
			here, there := net.Pipe()
			listener <- there
			return here, nil
		}}
		defer base.CloseIdleConnections()
		response := get(t, &httplimit.Transport{Base: base, MaxRetries: 2}, "http://example.com/")
		_, err := io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, 3, requests)
		require.Equal(t, 1, connections)
	})
}

// pipeListener accepts the connections that are sent to it. Unlike those of a network, they work under
// testing/synctest.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	if conn, open := <-l; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (l pipeListener) Close() error   { close(l); return nil }
func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
