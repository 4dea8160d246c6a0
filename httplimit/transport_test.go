// These tests promise that Transport keeps within its Limiter too, that only requests that are sent pay, that
// each request ends, what the errors say, and which requests are sent again.
package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/storage"
)

// The lower of the two limits is used up, neither is exceeded, and no more is paid than is sent.
func TestLowerLimitIsUsedUp(t *testing.T) {
	for _, test := range []struct{ server, own string }{
		{"gcra 5/s", "gcra 100/s"}, {"gcra 5/s", "gcra 5/s burst=1"}, {"gcra 100/s", "gcra 5/s burst=1"},
		{"fixedwindow 50/10s", "tokenbucket 10/s burst=50"}, {"tokenbucket 10/s burst=50 refill=interval", "fixedwindow 50/10s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, limitedServer(t, test.server, 10*time.Millisecond))
			c.get("/")
			c.Limiter = newLimiter(t, limiterOptions{Clock: time.Now}, slow(), rule("sum", "fixedwindow 10000/d"), rule("own", test.own))
			c.work(time.Minute-time.Millisecond, 20)
			sent := int64(len(c.sent)) - 1
			lowest := min(sluice.MustPolicy(test.server).Bound(time.Minute), sluice.MustPolicy(test.own).Bound(time.Minute))
			require.Zero(t, c.counts[http.StatusTooManyRequests])
			require.LessOrEqual(t, sent, lowest)
			require.GreaterOrEqual(t, float64(sent), 0.8*float64(lowest), "%v", test)
			d, err := c.Limiter.Peek(t.Context(), c.request(t.Context(), "/"))
			require.NoError(t, err)
			require.Equal(t, 10_000-sent, d.Results[0].Remaining)
		})
	}
}

func TestUnsentRequestsPayNothing(t *testing.T) {
	for name, arrival := range map[string]time.Duration{"the pause comes before": time.Second, "the pause comes while the limiter decides": 12 * time.Millisecond} {
		bubble(t, name, func(t *testing.T) {
			c := newClient(t, after(5*time.Millisecond, always(429, "Retry-After", "60")))
			c.Limiter = limiterOf(t, slow(), "fixedwindow 10/h")
			c.start(t.Context(), "/")
			time.Sleep(arrival)
			err := c.fail(within(t, 1), "/", context.DeadlineExceeded)
			require.ErrorContains(t, err, "the server requires a wait of 59.")
			require.Less(t, time.Since(c.began), arrival+30*time.Millisecond)
			require.Len(t, c.times(), 1)
			require.EqualValues(t, 9, c.remaining())
		})
	}
}

// A context that ends while the Limiter decides leaves the quota of the server to others, and pays nothing.
func TestCancelledRequestSpendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, always(200, "RateLimit", `"a";r=1;t=60`))
		c.sequential(1)
		c.Limiter = limiterOf(t, hooked{slow(), func(context.Context) error { time.Sleep(5 * time.Millisecond); return nil }}, "fixedwindow 10/h")
		ctx, cancel := context.WithCancel(t.Context())
		c.start(ctx, "/leaves")
		time.AfterFunc(8*time.Millisecond, cancel)
		c.start(t.Context(), "/next")
		c.all.Wait()
		require.Equal(t, []string{"/", "/next"}, c.paths)
		require.Less(t, c.sent[1], time.Second)
		require.EqualValues(t, 9, c.remaining())
	})
}

func TestErrorOfTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, always(200))
		c.Limiter = newLimiter(t, limiterOptions{Timeout: time.Second}, failing(storage.NotApplied(storage.ErrUnavailable)), rule("own", "gcra 1/s"))
		c.fail(t.Context(), "/", storage.ErrUnavailable)
		require.Empty(t, c.times())
		require.Zero(t, c.Pending())
	})
}

func TestRequestsAreSentInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, always(200, "RateLimit", `"a";r=0;t=1`))
		var want []string
		for i := range 60 {
			want = append(want, fmt.Sprint("/", i))
			c.start(t.Context(), want[i])
			time.Sleep(70 * time.Millisecond) // so that some arrive when the server accepts them
		}
		c.all.Wait()
		require.Equal(t, want, c.paths)
		require.Equal(t, 59*time.Second, c.sent[59])
	})
}

// A request that waits for the Limiter does not delay those that the Limiter allows, and a server that
// pauses does not delay other servers.
func TestWaitingRequestsDoNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/pause" {
				return newResponse(503, "Retry-After", "100")
			}
			return newResponse(200)
		})
		uploads := rule("upload", "gcra 1/10s")
		uploads.Cost = func(r *http.Request) int64 { return int64(strings.Count(r.URL.Path, "up")) }
		c.Limiter = newLimiter(t, limiterOptions{Clock: time.Now}, nil, uploads)
		for _, path := range []string{"/up/1", "/up/2", "/a", "http://b.example.com/pause", "http://b.example.com/b", "/c"} {
			c.start(t.Context(), path)
		}
		c.all.Wait()
		require.Equal(t, []string{"/up/1", "/a", "/pause", "/c", "/up/2", "/b"}, c.paths)
		require.Equal(t, seconds(0, 0, 0, 0, 10, 100), c.sent)
	})
}

func TestCancelledRequestDelaysNobody(t *testing.T) {
	for gone := range 3 {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, always(200, "RateLimit", `"a";r=0;t=1`))
			c.sequential(1)
			ctx, cancel := context.WithCancel(t.Context())
			for i := range 4 {
				if i == gone {
					c.start(ctx, "/gone")
				} else {
					c.start(t.Context(), "/stays")
				}
			}
			cancel()
			synctest.Wait()
			require.Equal(t, 1, c.endings())
			c.all.Wait()
			require.Equal(t, seconds(0, 1, 2, 3), c.times())
			require.Zero(t, c.Pending())
		})
	}
}

// If it is certain that the wait is too long, requests fail at once.
func TestTooLongAWaitFailsAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		answers []answer
		ended   []time.Duration // of requests within 5, 6 and 7 s, after the first request
	}{
		"a pause":                         {[]answer{always(429, "Retry-After", "9")}, seconds(0, 0, 0)},
		"nothing remains":                 {[]answer{always(200, "RateLimit", `"a";r=0;t=9`)}, seconds(0, 0, 0)},
		"a pause comes while they wait":   {[]answer{always(200, "RateLimit", `"a";r=0;t=2`), after(time.Second, always(429, "Retry-After", "9"))}, seconds(3, 3, 3)},
		"nothing remains later":           {[]answer{always(200, "RateLimit", `"a";r=0;t=2`), always(200, "RateLimit", `"a";r=0;t=9`)}, seconds(2, 2, 2)},
		"a response may still allow them": {[]answer{always(200, "RateLimit", `"a";r=1;t=20`), after(4*time.Second, always(200, "RateLimit", `"a";r=5;t=9`)), always(200)}, seconds(4, 4, 4)},
	} {
		bubble(t, name, func(t *testing.T) {
			c := newClient(t, inTurn(test.answers...))
			c.sequential(1)
			for i := range 3 {
				c.start(within(t, float64(i+5)), "/")
			}
			c.all.Wait()
			require.Equal(t, test.ended, c.ended)
		})
	}
}

// Neither a request in flight nor a request that waits longer delays the failure.
func TestPauseFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, inTurn(after(time.Hour, always(200)), always(429, "Retry-After", "60"), always(200)))
		c.start(t.Context(), "/in flight")
		c.start(t.Context(), "/denied")
		c.start(t.Context(), "/waits")
		require.Equal(t, 1, c.endings())
		c.start(within(t, 5), "/")
		require.Equal(t, 2, c.endings())
		c.all.Wait()
	})
}

func TestErrorOfAnUnsentRequest(t *testing.T) {
	for _, test := range []struct {
		spec   string
		cost   int64
		status int
		by     string
		want   string // of a request within a second
	}{
		{"gcra 100/s", 1, 429, "the server", "the server requires a wait of 1m0s, which is longer than the context lasts"},
		{"gcra 1/h", 1, 200, `the rule "own"`, `the rule "own" requires a wait of 1h0m0s, which is longer than the context lasts`},
		{"gcra 1/h", 2, 200, `the rule "own"`, `the rule "own" will never allow it`},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, always(test.status, "Retry-After", "60"))
			cost := int64(1)
			own := rule("own", test.spec)
			own.Cost = func(*http.Request) int64 { return cost }
			c.Limiter = newLimiter(t, limiterOptions{Clock: time.Now}, nil, own)
			c.get("/")
			cost = test.cost
			_, err := (&http.Client{Transport: c, Timeout: time.Second}).Get("http://example.com/")
			require.ErrorContains(t, err, "httplimit: request not sent: "+test.want+": context deadline exceeded")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var notSent *httplimit.WaitError
			require.ErrorAs(t, err, &notSent)
			require.Positive(t, notSent.Wait)
			var failed *url.Error
			require.ErrorAs(t, err, &failed)
			require.True(t, failed.Timeout())
			if test.cost > 1 {
				return
			}
			mine := errors.New("shutting down")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(mine) })
			err = c.fail(ctx, "/", mine)
			require.Equal(t, time.Second, time.Since(c.began))
			require.EqualError(t, err, "httplimit: request not sent: the context ended before "+test.by+" allowed it: shutting down")
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorAs(t, err, &notSent)
			require.False(t, notSent.Timeout())
			c.fail(ctx, "/", context.Canceled) // it has ended before
			require.Len(t, c.times(), 1)
		})
	}
}

func TestPanicClosesTheBody(t *testing.T) {
	for _, who := range []string{"limiter", "key"} {
		c := newClient(t, always(200))
		own := rule("own", "gcra 1/s")
		own.Cost = func(*http.Request) int64 { panic("cost") }
		if who == "key" {
			c.Key = func(*http.Request) string { panic("key") }
		} else {
			c.Limiter = newLimiter(t, limiterOptions{}, nil, own)
		}
		r, b := c.request(t.Context(), "/"), new(closeable)
		r.Body = b
		require.Panics(t, func() { _, _ = c.RoundTrip(r) })
		require.True(t, b.closed, who)
		require.Zero(t, c.Pending())
	}
}

// Base can send the rest of a body after it has returned the response.
func TestBodyOfASentRequestIsLeftToBase(t *testing.T) {
	c := newClient(t, always(200))
	r, b := c.request(t.Context(), "/"), new(closeable)
	r.Body = b
	_, err := c.RoundTrip(r)
	require.NoError(t, err)
	require.False(t, b.closed)
}

// Random traffic by several Transports that share a Limiter, with random delays, denials, cancellations and
// panics.
func TestEveryRequestEnds(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { randomTraffic(t, rand.New(rand.NewPCG(seed, 2))) })
	}
}

func randomTraffic(t *testing.T, random *rand.Rand) {
	var mu sync.Mutex
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	hosts, pauses, panics := 1+draw(2)*draw(30), draw(2), draw(2)
	own := rule("own", []string{"gcra 20/s burst=3", "gcra 50/s", "tokenbucket 20/s burst=5", "fixedwindow 10/s"}[draw(4)])
	own.Cost = func(r *http.Request) int64 {
		if panics*draw(50) == 1 {
			panic("cost")
		}
		return int64(len(r.URL.Path))
	}
	limiter := newLimiter(t, limiterOptions{Clock: time.Now}, []storage.Store{nil, slow()}[draw(2)], own)
	server := newClient(t, func(r *http.Request) (*http.Response, error) {
		if panics*draw(50) == 1 {
			panic("base")
		}
		time.Sleep(time.Duration(draw(100)) * time.Millisecond)
		switch pauses * draw(10) {
		case 1:
			return newResponse(429, "Retry-After", "3")
		case 2, 3, 4:
			return newResponse(200, "RateLimit", fmt.Sprintf(`"a";r=%d;t=1`, draw(4)))
		}
		return newResponse(200)
	})
	clients := make([]*client, 1+draw(3))
	for i := range clients {
		clients[i] = newClient(t, server.Base.RoundTrip)
		clients[i].Limiter = limiter
	}
	for range 300 {
		c, url := clients[draw(len(clients))], fmt.Sprintf("http://%d.example.com/%s", draw(hosts), "aaa"[:draw(3)])
		ctx, cancel := context.WithCancel(t.Context())
		if draw(6) == 0 {
			time.AfterFunc(time.Duration(draw(10_000))*time.Millisecond, cancel)
		} else if draw(6) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(draw(10_000))*time.Millisecond)
		}
		server.all.Go(func() {
			defer cancel()
			defer func() { require.Contains(t, []any{nil, "cost", "base"}, recover()) }()
			if _, err := c.RoundTrip(c.request(ctx, url)); err != nil {
				require.Condition(t, func() bool { _, late := ctx.Deadline(); return late || ctx.Err() != nil }, "%v", err)
			}
		})
		time.Sleep(time.Duration(draw(20)) * time.Millisecond)
	}
	server.all.Wait()
	for _, c := range clients {
		require.Zero(t, c.Pending())
	}
	require.Less(t, time.Since(server.began), time.Hour)
}

func TestRetryWaitsForTheServer(t *testing.T) {
	denial := always(429, "Retry-After", "7")
	for name, test := range map[string]struct {
		answers    []answer
		maxRetries int
		want       int // the status that the caller gets
		sent       []time.Duration
	}{
		"never by default":     {[]answer{denial, always(200)}, 0, 429, seconds(0)},
		"never if negative":    {[]answer{denial, always(200)}, -1, 429, seconds(0)},
		"after Retry-After":    {[]answer{denial, denial, always(200)}, 5, 200, seconds(0, 7, 14)},
		"after t":              {[]answer{always(429, "RateLimit", `"a";r=0;t=3`), always(200)}, 5, 200, seconds(0, 3)},
		"after a backoff":      {[]answer{always(503), always(503), always(503), always(200)}, 5, 200, seconds(0, 1, 3, 7)},
		"at most MaxRetries":   {[]answer{always(503, "Retry-After", "7")}, 2, 503, seconds(0, 7, 14)},
		"not without a denial": {[]answer{always(200)}, 5, 200, seconds(0)},
	} {
		bubble(t, name, func(t *testing.T) {
			c := newClient(t, inTurn(test.answers...))
			c.MaxRetries = test.maxRetries
			decisions := 0
			count := func(context.Context, sluice.Event) { decisions++ }
			c.Limiter = newLimiter(t, limiterOptions{Clock: time.Now, Observer: count}, nil, rule("own", "gcra 100/s"))
			response := c.get("/")
			require.Equal(t, test.want, response.StatusCode)
			require.Equal(t, test.sent, c.times())
			require.Equal(t, len(test.sent), decisions, "the Limiter decides about each retry")
			require.EqualValues(t, 1, c.open.Load(), "only the caller's response is open")
			require.Zero(t, c.unread.Load(), "a connection is used again only after its response was read")
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Equal(t, "why", string(text), "the caller can read the whole body")
			require.Zero(t, c.Pending())
		})
	}
}

// A response of a fake may have no body. A body that the server does not end delays the retry by a second at most.
func TestRetryAfterAResponseWithAnUnusualBody(t *testing.T) {
	for name, body := range map[string]func() io.ReadCloser{
		"no body":      func() io.ReadCloser { return nil },
		"endless body": func() io.ReadCloser { r, _ := io.Pipe(); return r },
	} {
		bubble(t, name, func(t *testing.T) {
			answers, began := inTurn(always(429, "Retry-After", "1"), always(200)), time.Now()
			base := roundTripper(func(r *http.Request) (*http.Response, error) {
				response, err := answers(r)
				response.Body = body()
				return response, err
			})
			response, err := (&http.Client{Transport: &httplimit.Transport{Base: base, MaxRetries: 1}}).Get("http://example.com/")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, response.StatusCode)
			require.Equal(t, time.Second, time.Since(began))
		})
	}
}

func TestRetryWithoutABodyReturnsTheDenial(t *testing.T) {
	c := newClient(t, always(429))
	c.MaxRetries = 5
	r := c.request(t.Context(), "/")
	r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("the file is gone") }
	response, err := c.RoundTrip(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	require.EqualValues(t, 1, c.open.Load())
	require.Len(t, c.times(), 1)
}

func TestOnlyDeniedAndRepeatableRequestsAreRetried(t *testing.T) {
	tracetest.Answers(t, "testdata/retries.txt", func(question string) (answer string) {
		words := strings.Split(question, " | ")
		status, err := strconv.Atoi(words[3])
		require.NoError(t, err)
		text := strings.NewReader("hello") // NewRequest sets GetBody
		bodies := map[string]io.Reader{"nothing": nil, "a text": text, "a stream": io.MultiReader(text)}
		synctest.Test(t, func(t *testing.T) {
			var sent []string
			c := newClient(t, func(r *http.Request) (*http.Response, error) {
				var body []byte
				if r.Body != nil {
					body, _ = io.ReadAll(r.Body)
				}
				sent = append(sent, string(body))
				return newResponse(status, "Retry-After", "1")
			})
			c.MaxRetries = 1
			r, err := http.NewRequestWithContext(t.Context(), words[0], "http://example.com/", bodies[words[1]])
			require.NoError(t, err)
			r.Method = words[0] // NewRequest writes GET for an empty one
			r.Header.Set("Idempotency-Key", words[2])
			original := r.Body
			response, err := c.RoundTrip(r)
			require.NoError(t, err)
			require.True(t, original == r.Body, "the caller's request is not changed")
			require.Equal(t, status, response.StatusCode)
			answer = fmt.Sprintf("%q", sent)
		})
		return answer
	})
}

// A context that ends before the pause does gets the response, which says more than an error.
func TestRetryIsBoundedByTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, always(429, "Retry-After", "7"))
		c.MaxRetries = 5
		response, err := c.RoundTrip(c.request(within(t, 10), "/"))
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
		require.Equal(t, seconds(0, 7), c.times(), "the third would be sent after the deadline")
		require.Equal(t, 7*time.Second, time.Since(c.began))
		require.NoError(t, response.Body.Close())

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		r, again := c.request(ctx, "/"), new(closeable)
		r.GetBody = func() (io.ReadCloser, error) { return again, nil }
		_, err = c.RoundTrip(r)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 17*time.Second, time.Since(c.began))
		require.True(t, again.closed, "the body of the retry, which was not sent")
		require.Zero(t, c.open.Load())
		require.Zero(t, c.Pending())
	})
}

// idle is a RoundTripper with idle connections.
type idle struct {
	http.RoundTripper
	closed bool
}

func (i *idle) CloseIdleConnections() { i.closed = true }

func TestIdleConnectionsOfBaseAreClosed(t *testing.T) {
	base := new(idle)
	(&http.Client{Transport: &httplimit.Transport{Base: base}}).CloseIdleConnections()
	require.True(t, base.closed)
	(&httplimit.Transport{Base: roundTripper(always(200))}).CloseIdleConnections() // is not supported
}
