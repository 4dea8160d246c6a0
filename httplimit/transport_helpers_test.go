package httplimit_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

type answer = func(*http.Request) (*http.Response, error)

// client is a Transport whose server is a function of the test. It records what is sent, and when.
type client struct {
	httplimit.Transport
	t      testing.TB
	began  time.Time
	all    sync.WaitGroup
	open   atomic.Int64    // the bodies of responses that are not closed
	unread atomic.Int64    // the bytes of bodies that were closed before they were read
	mu     sync.Mutex      // guards the fields below
	paths  []string        // of the requests that were sent
	sent   []time.Duration // since began
	ended  []time.Duration // of the requests of start
	counts map[int]int     // of the responses, by status
}

func newClient(t testing.TB, server answer) *client {
	c := &client{t: t, began: time.Now(), counts: make(map[int]int)}
	c.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		c.paths, c.sent = append(c.paths, r.URL.Path), append(c.sent, time.Since(c.began))
		c.mu.Unlock()
		response, err := server(r)
		if response != nil {
			c.open.Add(1)
			response.Body = &countedBody{strings.NewReader("why"), c}
			c.mu.Lock()
			c.counts[response.StatusCode]++
			c.mu.Unlock()
		}
		return response, err
	})
	return c
}

type countedBody struct {
	*strings.Reader
	*client
}

func (b *countedBody) Close() error {
	b.unread.Add(int64(b.Len()))
	b.open.Add(-1)
	return nil
}

type roundTripper answer

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// request returns a request to a URL, or to a path of example.com. It has a body that can be sent again.
func (c *client) request(ctx context.Context, url string) *http.Request {
	if strings.HasPrefix(url, "/") {
		url = "http://example.com" + url
	}
	r, err := http.NewRequestWithContext(ctx, "PUT", url, strings.NewReader("hello"))
	require.NoError(c.t, err)
	return r
}

func (c *client) get(url string) *http.Response {
	response, err := c.RoundTrip(c.request(c.t.Context(), url))
	require.NoError(c.t, err)
	return response
}

// fail sends a request that must fail with this error. Its body must be closed.
func (c *client) fail(ctx context.Context, path string, want error) error {
	c.t.Helper()
	r, b := c.request(ctx, path), new(closeable)
	r.Body = b
	_, err := c.RoundTrip(r)
	require.ErrorIs(c.t, err, want)
	require.True(c.t, b.closed)
	return err
}

type closeable struct {
	strings.Reader
	closed bool
}

func (b *closeable) Close() error { b.closed = true; return nil }

// start sends a request, and returns when it waits or has ended.
func (c *client) start(ctx context.Context, path string) {
	c.all.Go(func() {
		defer func() {
			_ = recover() // a function of a test may panic
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ended = append(c.ended, time.Since(c.began))
		}()
		_, _ = c.RoundTrip(c.request(ctx, path))
	})
	synctest.Wait()
}

// sequential sends requests one after the other, and returns when all requests so far were sent.
func (c *client) sequential(n int) []time.Duration {
	for range n {
		c.get("/")
	}
	return c.times()
}

// work sends requests from so many goroutines for d.
func (c *client) work(d time.Duration, workers int) {
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				if _, err := c.RoundTrip(c.request(ctx, "/")); err != nil {
					return
				}
			}
		})
	}
	all.Wait()
}

func (c *client) times() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}

// endings returns how many requests of start have ended.
func (c *client) endings() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ended)
}

// remaining returns what remains of the client's own limit.
func (c *client) remaining() int64 {
	d, err := c.Limiter.Peek(c.t.Context(), c.request(c.t.Context(), "/"))
	require.NoError(c.t, err)
	return d.Remaining
}

// within returns a context that ends in so many seconds.
func within(t testing.TB, seconds float64) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds*float64(time.Second)))
	t.Cleanup(cancel)
	return ctx
}

// newResponse returns a response with these fields, given as pairs of name and value.
func newResponse(status int, fields ...string) (*http.Response, error) {
	response := &http.Response{StatusCode: status, Header: make(http.Header), Body: http.NoBody}
	for i := 0; i < len(fields); i += 2 {
		response.Header.Add(fields[i], fields[i+1])
	}
	return response, nil
}

// always returns the answer of a server that always answers the same.
func always(status int, fields ...string) answer {
	return func(*http.Request) (*http.Response, error) { return newResponse(status, fields...) }
}

// inTurn returns the answer of a server that gives these answers one after the other, and then repeats the last.
func inTurn(answers ...answer) answer {
	var mu sync.Mutex
	return func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		next := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		mu.Unlock()
		return next(r)
	}
}

// after delays an answer.
func after(d time.Duration, next answer) answer {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return next(r)
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// limitedServer is a server with a limit. Requests and responses take random times, so that they overtake
// each other.
func limitedServer(t testing.TB, spec string, slowest time.Duration) answer {
	h := httplimit.Handler(limiterOf(t, nil, spec), hello, httplimit.Options{})
	random, mu := rand.New(rand.NewPCG(1, 2)), new(sync.Mutex)
	travel := func() {
		mu.Lock()
		d := time.Duration(random.Int64N(int64(slowest) + 1))
		mu.Unlock()
		time.Sleep(d)
	}
	return func(r *http.Request) (*http.Response, error) {
		travel()
		response := respond(h, r)
		travel()
		return response, nil
	}
}

// bubble runs a test in which time is virtual.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func seconds(n ...float64) (list []time.Duration) {
	for _, n := range n {
		list = append(list, time.Duration(n*float64(time.Second)))
	}
	return list
}

type limiterOptions = sluice.Options[*http.Request]

func newLimiter(t testing.TB, o limiterOptions, store storage.Store, rules ...sluice.Rule[*http.Request]) *sluice.Limiter[*http.Request] {
	t.Helper()
	limiter, err := o.New(store, rules...)
	require.NoError(t, err)
	return limiter
}

// limiterOf returns a limiter with one rule, named "own".
func limiterOf(t testing.TB, store storage.Store, spec string) *sluice.Limiter[*http.Request] {
	t.Helper()
	return newLimiter(t, limiterOptions{Clock: time.Now}, store, rule("own", spec))
}

// hooked is a store that calls before at each round trip. Like the store of a database, it
// does not decide in place.
type hooked struct {
	storage.Store
	before func(context.Context) error
}

func (h hooked) Load(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	if err := h.before(ctx); err != nil {
		return nil, time.Time{}, err
	}
	return h.Store.Load(ctx, keys...)
}

func (h hooked) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if err := h.before(ctx); err != nil {
		return nil, false, err
	}
	return h.Store.CompareAndSwap(ctx, swaps...)
}

// failing is a store whose round trips return the error.
func failing(err error) storage.Store {
	return hooked{new(memory.Store), func(context.Context) error { return err }}
}

func slow() storage.Store {
	return hooked{new(memory.Store), func(context.Context) error { time.Sleep(5 * time.Millisecond); return nil }}
}
