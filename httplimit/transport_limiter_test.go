// These tests promise that Transport keeps within its Limiter too, that only requests that
// are sent pay, and what the errors of the others say.
package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

// requireSpaced checks that at least this time is between all requests.
func requireSpaced(t *testing.T, least time.Duration, times []time.Duration) {
	t.Helper()
	for i := 1; i < len(times); i++ {
		require.GreaterOrEqual(t, times[i]-times[i-1], least, "%v", times)
	}
}

// While the server pauses all requests, they do not use the Limiter's quota in advance.
func TestLimiterHoldsAfterAPause(t *testing.T) {
	for name, delay := range map[string]time.Duration{"a pause before the requests": 0, "a pause while they wait": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				c := newTransport(func(*http.Request) (*http.Response, error) {
					if sent.Add(1) > 1 {
						return newResponse(200)
					}
					time.Sleep(delay)
					return newResponse(429, "Retry-After", "3")
				})
				c.Limiter = limiterOf(t, nil, "gcra 5/s burst=1")
				c.concurrent(t, 13)
				requireSpaced(t, 200*time.Millisecond, c.times())
			})
		})
	}
}

func TestLimiterHoldsWhenTheServerReportsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fields := []string{"RateLimit", `"a";r=0;t=60`}
		c := newTransport(func(*http.Request) (*http.Response, error) { return newResponse(200, fields...) })
		c.Limiter = limiterOf(t, nil, "gcra 5/s burst=1")
		c.sequential(t, 1)
		fields = []string{"RateLimit", `"a";r=100;t=1`}
		c.concurrent(t, 12)
		requireSpaced(t, 200*time.Millisecond, c.times())
	})
}

func TestUnsentRequestsPayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) { return newResponse(429, "Retry-After", "2") })
		c.Limiter = limiterOf(t, nil, "fixedwindow 5/h")
		for range 6 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			r, _ := request(ctx, t)
			_, _ = c.RoundTrip(r)
			cancel()
		}
		require.Len(t, c.times(), 1)
		require.EqualValues(t, 4, remaining(t, &c.Transport))
	})
}

// The lower of the two limits is used up, neither is exceeded, and no more is paid than is
// sent.
func TestLowerLimitIsUsedUp(t *testing.T) {
	for _, test := range []struct{ server, own string }{
		{"gcra 5/s", "gcra 100/s"}, {"gcra 5/s", "gcra 5/s burst=1"}, {"gcra 100/s", "gcra 5/s burst=1"},
		{"fixedwindow 50/10s", "tokenbucket 10/s burst=50"}, {"tokenbucket 10/s burst=50 refill=interval", "fixedwindow 50/10s"},
	} {
		for _, workers := range []int{1, 20} {
			for name, store := range map[string]storage.Store{"memory": nil, "slow store": slow()} {
				t.Run(fmt.Sprintf("%s within %s by %d, %s", test.own, test.server, workers, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { lowerOf(t, test.server, test.own, workers, store) })
				})
			}
		}
	}
}

func lowerOf(t *testing.T, server, own string, workers int, store storage.Store) {
	w := newWire(httplimit.Handler(limiterOf(t, nil, server), hello, httplimit.Options{}), 10*time.Millisecond)
	client := &httplimit.Transport{Base: w}
	get(t, client, "http://example.com/")
	limiter := newLimiter(t, limiterOptions{Clock: time.Now}, store, rule("own", own), rule("sum", "fixedwindow 10000/d"))
	client.Limiter = limiter
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute-time.Millisecond)
	defer cancel()
	work(ctx, client, workers)
	sent := int64(w.statuses[http.StatusOK] + w.statuses[http.StatusServiceUnavailable]) // the handler answers 503 if the context ends
	require.Zero(t, w.statuses[http.StatusTooManyRequests])
	lowest := min(sluice.MustPolicy(server).Bound(time.Minute), sluice.MustPolicy(own).Bound(time.Minute))
	require.LessOrEqual(t, sent-1, lowest)
	require.GreaterOrEqual(t, float64(sent), 0.8*float64(lowest))
	r, _ := request(t.Context(), t)
	d, err := limiter.Peek(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, 10_000-(sent-1), d.Results[1].Remaining)
}

// slowUpdates is a store whose round trips take time. It decides all waiting calls in one.
type slowUpdates struct{ *memory.Store }

func (s slowUpdates) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	time.Sleep(10 * time.Millisecond)
	return s.Store.Transact(ctx, clock, updates...)
}

func TestPaymentIsReturnedIfTheServerPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) {
			time.Sleep(5 * time.Millisecond)
			return newResponse(429, "Retry-After", "60")
		})
		c.Limiter = limiterOf(t, slow(), "fixedwindow 10/h")
		go get(t, c, "http://example.com/")
		time.Sleep(12 * time.Millisecond) // so that the Limiter decides while the response arrives
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, b := request(ctx, t)
		_, err := c.RoundTrip(r)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, b.closed)
		require.Len(t, c.times(), 1)
		require.EqualValues(t, 9, remaining(t, &c.Transport))
	})
}

func TestReturningAPaymentTakesAtMostTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRecorder(t, func(*http.Request) (*http.Response, error) {
			time.Sleep(5 * time.Millisecond)
			return newResponse(429, "Retry-After", "60")
		})
		var stuck atomic.Bool
		store := hooked{new(memory.Store), func(ctx context.Context) error {
			if stuck.Load() {
				return noReply(ctx)
			}
			return takesTime(ctx)
		}}
		l.Limiter = newLimiter(t, limiterOptions{Clock: time.Now, Timeout: 500 * time.Millisecond}, store, rule("own", "gcra 100/s"))
		l.start(t.Context(), "/") // sent at 10ms, answered at 15ms
		time.Sleep(12 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		l.start(ctx, "/") // is allowed at 22ms
		time.Sleep(6 * time.Millisecond)
		stuck.Store(true)
		time.AfterFunc(12*time.Millisecond, cancel)
		l.all.Wait()
		require.Equal(t, []time.Duration{15 * time.Millisecond, 522 * time.Millisecond}, l.ended)
		require.Len(t, l.paths, 1)
	})
}

func TestFailurePolicyOfTheLimiterDecides(t *testing.T) {
	for policy, want := range map[sluice.FailurePolicy]error{
		sluice.FailClosed: storage.ErrUnavailable, sluice.FailOpen: nil, sluice.FailLocal: nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newTransport(unlimited)
			c.Limiter = newLimiter(t, limiterOptions{Clock: time.Now, OnFailure: policy}, stuck(), rule("own", "gcra 1/s"))
			r, b := request(t.Context(), t)
			_, err := c.RoundTrip(r)
			require.ErrorIs(t, err, want)
			require.Equal(t, want != nil, b.closed)
			require.Equal(t, want == nil, len(c.times()) == 1)
		})
	}
}

func TestTooLongAWaitIsATimeout(t *testing.T) {
	for _, test := range []struct {
		spec   string
		cost   int64
		status int
		want   string
	}{
		{"gcra 100/s", 1, 429, "the server requires a wait of 5s, which is longer than the context lasts: context deadline exceeded"},
		{"gcra 1/h", 1, 200, `the rule "own" requires a wait of 1h0m0s, which is longer than the context lasts`},
		{"gcra 1/h", 2, 200, `the rule "own" will never allow it: context deadline exceeded`},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newTransport(func(*http.Request) (*http.Response, error) {
				return newResponse(test.status, "Retry-After", "5")
			})
			client := &http.Client{Transport: c, Timeout: time.Second}
			cost := int64(1)
			own := rule("own", test.spec)
			own.Cost = func(*http.Request) int64 { return cost }
			c.Limiter = newLimiter(t, limiterOptions{Clock: time.Now}, nil, own)
			response, err := client.Get("http://example.com/")
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			cost = test.cost
			_, err = client.Get("http://example.com/")
			require.ErrorContains(t, err, test.want)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var notSent *httplimit.WaitError
			require.ErrorAs(t, err, &notSent)
			require.Positive(t, notSent.Wait)
			var failed *url.Error
			require.ErrorAs(t, err, &failed)
			require.True(t, failed.Timeout())
		})
	}
}

// The error also names the server if it was not certain that the context would end.
func TestErrorNamesTheReasonOfTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPausing(func() (*http.Response, error) { time.Sleep(time.Minute); return newResponse(200) }, "Retry-After", "10")
		c.sequential(t, 1)
		for range 100 {
			go get(t, c, "http://example.com/")
		}
		synctest.Wait()
		_, err := (&http.Client{Transport: c, Timeout: 10200 * time.Millisecond}).Get("http://example.com/")
		require.ErrorContains(t, err, "httplimit: request not sent: the context ended while it waited for the server: context deadline exceeded")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var failed *url.Error
		require.ErrorAs(t, err, &failed)
		require.True(t, failed.Timeout())
		time.Sleep(2 * time.Minute)
	})
}

func TestErrorHasTheCauseOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPausing(succeed, "Retry-After", "60")
		c.sequential(t, 1)
		mine := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(mine) })
		r, _ := request(ctx, t)
		_, err := c.RoundTrip(r)
		require.EqualError(t, err, "httplimit: request not sent: the context ended while it waited for the server: shutting down")
		require.ErrorIs(t, err, mine)
		require.ErrorIs(t, err, context.Canceled)

		r, _ = request(ctx, t)
		_, err = c.RoundTrip(r)
		require.EqualError(t, err, "httplimit: request not sent: shutting down")
	})
}

// The error and the cause of a context can differ. A WaitError wraps both.
func TestErrorIsATimeoutIfItWrapsDeadlineExceeded(t *testing.T) {
	other := errors.New("shutting down")
	lateWithCause, release := context.WithTimeoutCause(t.Context(), 0, other)
	defer release()
	canceledAsLate, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(other)
	for ctx, want := range map[context.Context]bool{lateWithCause: true, canceledAsLate: true, canceled: false} {
		r, _ := request(ctx, t)
		_, err := newPausing(succeed).RoundTrip(r)
		require.Equal(t, want, errors.Is(err, context.DeadlineExceeded), "%v", err)
		var notSent *httplimit.WaitError
		require.ErrorAs(t, err, &notSent)
		require.Equal(t, want, notSent.Timeout(), "%v", err)
	}
}

func TestPanicInBaseCountsAsNoResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(r *http.Request) (*http.Response, error) {
			if r.Method == "PUT" {
				panic("the base")
			}
			return newResponse(200, "RateLimit", `"a";r=0;t=2`, "RateLimit-Policy", `"a";q=1;w=30`)
		})
		r, _ := request(t.Context(), t)
		require.Panics(t, func() { _, _ = c.RoundTrip(r) })
		require.Equal(t, seconds(0, 0, 2, 4), c.sequential(t, 3))
	})
}

// pool counts how often its connections are closed.
type pool struct {
	http.RoundTripper
	closed int
}

func (p *pool) CloseIdleConnections() { p.closed++ }

func TestCloseIdleConnections(t *testing.T) {
	base := new(pool)
	client := &http.Client{Transport: &httplimit.Transport{Base: base}}
	client.CloseIdleConnections()
	require.Equal(t, 1, base.closed)
	client.Transport = &httplimit.Transport{Base: roundTripper(nil)}
	client.CloseIdleConnections() // must not panic
}
