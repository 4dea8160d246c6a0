package httplimit_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// wire carries requests to a handler with random delays, so that requests and responses
// overtake each other.
type wire struct {
	http.Handler
	slowest  time.Duration
	mu       sync.Mutex
	random   *rand.Rand
	statuses map[int]int // responses by status
}

func newWire(h http.Handler, slowest time.Duration) *wire {
	return &wire{Handler: h, slowest: slowest, random: rand.New(rand.NewPCG(1, 2)), statuses: make(map[int]int)}
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(w.delay())
	response := respond(w.Handler, r)
	time.Sleep(w.delay())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statuses[response.StatusCode]++
	return response, nil
}

func (w *wire) delay() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.random.Int64N(int64(w.slowest) + 1))
}

func get(t testing.TB, client http.RoundTripper, url string) *http.Response {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	require.NoError(t, err)
	response, err := client.RoundTrip(r)
	require.NoError(t, err)
	return response
}

// work sends requests from so many goroutines until the context ends.
func work(ctx context.Context, client http.RoundTripper, workers int) {
	var workforce sync.WaitGroup
	for range workers {
		workforce.Go(func() {
			for {
				r, _ := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
				if _, err := client.RoundTrip(r); err != nil {
					return
				}
			}
		})
	}
	workforce.Wait()
}

// transport is a Transport whose server is a function of the test. It records when each
// request was sent.
type transport struct {
	httplimit.Transport
	sent   []time.Duration // since the test began
	answer func(*http.Request) (*http.Response, error)
	began  time.Time
	mu     sync.Mutex
}

func newTransport(answer func(*http.Request) (*http.Response, error)) *transport {
	c := &transport{answer: answer, began: time.Now()}
	c.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		c.sent = append(c.sent, time.Since(c.began))
		c.mu.Unlock()
		return c.answer(r)
	})
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newResponse returns a response with these fields, given as pairs of name and value.
func newResponse(status int, fields ...string) (*http.Response, error) {
	response := &http.Response{StatusCode: status, Header: make(http.Header), Body: http.NoBody}
	for i := 0; i < len(fields); i += 2 {
		response.Header.Add(fields[i], fields[i+1])
	}
	return response, nil
}

func seconds(n ...int) (list []time.Duration) {
	for _, n := range n {
		list = append(list, time.Duration(n)*time.Second)
	}
	return list
}

// sequential sends requests one after the other, and returns when each was sent.
func (c *transport) sequential(t *testing.T, n int) []time.Duration {
	t.Helper()
	for range n {
		get(t, c, "http://example.com/")
	}
	return c.times()
}

// concurrent sends requests at the same time, and returns when all are answered.
func (c *transport) concurrent(t *testing.T, n int) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() { get(t, c, "http://example.com/") })
	}
	all.Wait()
}

// requireError sends a request that must fail with this error.
func (c *transport) requireError(t *testing.T, want error) {
	t.Helper()
	r, _ := request(t.Context(), t)
	_, err := c.RoundTrip(r)
	require.ErrorIs(t, err, want)
}

func (c *transport) times() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}

// body records whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

func request(ctx context.Context, t *testing.T) (*http.Request, *body) {
	t.Helper()
	b := &body{Reader: strings.NewReader("hello")}
	r, err := http.NewRequestWithContext(ctx, "PUT", "http://example.com/", b)
	require.NoError(t, err)
	return r, b
}

type limiterOptions = sluice.Options[*http.Request]

func newLimiter(t testing.TB, o limiterOptions, store storage.Store, rules ...sluice.Rule[*http.Request]) *sluice.Limiter[*http.Request] {
	t.Helper()
	limiter, err := o.New(store, rules...)
	require.NoError(t, err)
	return limiter
}

// limiterOf returns a limiter with one rule, named "own".
func limiterOf(t *testing.T, store storage.Store, spec string) *sluice.Limiter[*http.Request] {
	t.Helper()
	return newLimiter(t, limiterOptions{Clock: time.Now}, store, rule("own", spec))
}

func remaining(t *testing.T, c *httplimit.Transport) int64 {
	t.Helper()
	r, _ := request(t.Context(), t)
	d, err := c.Limiter.Peek(t.Context(), r)
	require.NoError(t, err)
	return d.Remaining
}

// recorder is a transport that records the paths of requests as they are sent.
type recorder struct {
	*transport
	t     *testing.T
	paths []string        // as they were sent
	ended []time.Duration // since the test began
	all   sync.WaitGroup
}

func newRecorder(t *testing.T, answer func(*http.Request) (*http.Response, error)) *recorder {
	l := &recorder{t: t}
	l.transport = newTransport(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		l.paths = append(l.paths, r.URL.Path)
		l.mu.Unlock()
		return answer(r)
	})
	return l
}

// start sends a request, and returns when it waits or was answered.
func (l *recorder) start(ctx context.Context, path string) {
	r, _ := request(ctx, l.t)
	r.URL.Path = path
	l.all.Go(func() {
		defer func() {
			_ = recover() // a limiter of a test may panic
			l.mu.Lock()
			defer l.mu.Unlock()
			l.ended = append(l.ended, time.Since(l.began))
		}()
		_, _ = l.RoundTrip(r)
	})
	synctest.Wait()
}

// snapshot returns the paths that were sent, and when requests ended.
func (l *recorder) snapshot() (paths []string, ended []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.paths), slices.Clone(l.ended)
}

// uploads is a rule that only requests with "up" in their paths pay for.
func uploads(spec string) sluice.Rule[*http.Request] {
	r := rule("upload", spec)
	r.Cost = func(r *http.Request) int64 { return int64(strings.Count(r.URL.Path, "up")) }
	return r
}

// countingLimiter counts the calls of the limiter by their operation.
func countingLimiter(t *testing.T, store storage.Store, calls map[sluice.Op]int, rules ...sluice.Rule[*http.Request]) *sluice.Limiter[*http.Request] {
	t.Helper()
	var mu sync.Mutex
	limiter, err := limiterOptions{Clock: time.Now, Observer: func(e sluice.Event) {
		mu.Lock()
		defer mu.Unlock()
		calls[e.Op]++
	}}.New(store, rules...)
	require.NoError(t, err)
	return limiter
}

// unlimited reports no limit.
func unlimited(*http.Request) (*http.Response, error) { return newResponse(200) }

// onePerSecond reports that nothing remains, and that one unit comes back each second.
func onePerSecond(*http.Request) (*http.Response, error) {
	return newResponse(200, "RateLimit", `"a";r=0;t=1`)
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

// noReply waits until the context ends.
func noReply(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func takesTime(context.Context) error {
	time.Sleep(5 * time.Millisecond)
	return nil
}

func noDelay(context.Context) error { return nil }

// failing is a store whose round trips return the error.
func failing(err error) storage.Store {
	return hooked{new(memory.Store), func(context.Context) error { return err }}
}

func slow() storage.Store { return hooked{new(memory.Store), takesTime} }

func stuck() storage.Store { return hooked{new(memory.Store), noReply} }
