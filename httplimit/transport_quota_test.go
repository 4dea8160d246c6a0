// These tests promise that Transport keeps within the limits that servers report, uses
// nearly all of them, and forgets what no longer matters.
package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

// slack is the longest way to the server that causes no denials.
const slack = 100 * time.Millisecond

// After the first response of our Handler, no request is denied, whatever the algorithm, the
// number of concurrent requests and the delays. The client gets at least 90% of the limit.
func TestNeverDeniedInSteadyState(t *testing.T) {
	for _, spec := range []string{
		"gcra 5/s", "gcra 100/m burst=20", "gcra 10/m", "tokenbucket 10/s burst=50 refill=interval", "tokenbucket 6/m burst=2",
		"fixedwindow 20/10s", "fixedwindow 5/s align=clock", "fixedwindow 60/m align=clock", "movingwindow 20/10s slots=10", "movingwindow 20/10s slots=10 trailing=whole",
		"all(gcra 5/s; gcra 100/m)",
	} {
		for _, workers := range []int{1, 20} {
			for _, slowest := range []time.Duration{0, 10 * time.Millisecond, time.Second} {
				t.Run(fmt.Sprint(spec, " by ", workers, " over ", slowest), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { steady(t, spec, workers, slowest) })
				})
			}
		}
	}
}

func steady(t *testing.T, spec string, workers int, slowest time.Duration) {
	limiter := newLimiter(t, limiterOptions{Clock: time.Now}, nil, rule("client", spec))
	w := newWire(httplimit.Handler(limiter, hello, httplimit.Options{}), slowest)
	client := &httplimit.Transport{Base: w}
	get(t, client, "http://example.com/") // the first response reports the limit
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	work(ctx, client, workers)
	require.Zero(t, w.statuses[http.StatusTooManyRequests])
	if slowest <= 10*time.Millisecond { // longer ways limit by themselves
		policy := sluice.MustPolicy(spec)
		full, err := policy.Peek(nil, still(), 1)
		require.NoError(t, err)
		steadily := policy.Bound(time.Minute) - full.Limit
		require.GreaterOrEqual(t, float64(w.statuses[http.StatusOK]), 0.9*float64(steadily))
	}
}

// The same holds if responses are slow or get lost, requests are cancelled, and the server is
// down at times. Only the way to the server must be short.
func TestNeverDeniedByAnUnreliableServer(t *testing.T) {
	for _, spec := range []string{"gcra 1/s burst=1", "gcra 2/s burst=1", "gcra 60/m burst=10", "tokenbucket 5/s burst=20", "fixedwindow 1/s", "movingwindow 2/s", "all(gcra 5/s; gcra 100/m)"} {
		for _, slowest := range []time.Duration{time.Millisecond, 300 * time.Millisecond, 5 * time.Second} {
			t.Run(fmt.Sprint(spec, " over ", slowest), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { unreliable(t, spec, slowest) })
			})
		}
	}
}

func unreliable(t *testing.T, spec string, slowest time.Duration) {
	w := newWire(httplimit.Handler(limiterOf(t, nil, spec), hello, httplimit.Options{}), slack/2)
	back := newWire(nil, slowest)
	sleep := func(ctx context.Context, d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var sent, denied atomic.Int64
	client := &httplimit.Transport{Base: roundTripper(func(r *http.Request) (*http.Response, error) {
		n := sent.Add(1)
		if n > 1 && time.Now().Second()%30 > 20 {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		if err := sleep(r.Context(), w.delay()); err != nil {
			return nil, err
		}
		response := respond(w.Handler, r)
		if response.StatusCode == http.StatusTooManyRequests {
			denied.Add(1)
		}
		if err := sleep(r.Context(), back.delay()); err != nil {
			return nil, err
		}
		if n%20 == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		return response, nil
	})}
	get(t, client, "http://example.com/") // the first response reports the limit
	end := time.Now().Add(2 * time.Minute)
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*2*time.Second)
				r, _ := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
				if _, err := client.RoundTrip(r); err != nil {
					time.Sleep(100 * time.Millisecond)
				}
				cancel()
			}
		})
	}
	workers.Wait()
	require.Zero(t, denied.Load())
}

func TestRequestsWithOneKeyShareALimit(t *testing.T) {
	for _, test := range []struct {
		key  func(*http.Request) string
		urls []string
		sent []time.Duration
	}{
		{nil, []string{"http://example.com/", "http://Example.com/", "http://example.com:80/", "http://example.com./"}, seconds(0, 5, 10, 15)},
		{nil, []string{"http://a/", "http://b/", "http://a:81/", "http://a/"}, seconds(0, 0, 0, 5)},
		{func(r *http.Request) string { return r.URL.Path }, []string{"http://a/1", "http://b/1", "http://b/2"}, seconds(0, 5, 5)},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newTransport(func(*http.Request) (*http.Response, error) { return newResponse(429, "Retry-After", "5") })
			c.Key = test.key
			for _, url := range test.urls {
				get(t, c, url)
			}
			require.Equal(t, test.sent, c.times())
		})
	}
}

func TestContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) { return newResponse(429, "Retry-After", "60") })
		get(t, c, "http://example.com/")

		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		r, b := request(ctx, t)
		_, err := c.RoundTrip(r)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, time.Since(c.began), "at once, because the wait is certain to be too long")
		require.True(t, b.closed)

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		r, b = request(ctx, t)
		_, err = c.RoundTrip(r)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 10*time.Second, time.Since(c.began))
		require.True(t, b.closed)

		require.Equal(t, seconds(0, 60), c.sequential(t, 1), "nothing was sent")
	})
}

// While a request is in flight, its response can make the wait of the others longer or shorter.
func TestResponseThatMakesTheWaitTooLongEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pauses := map[string]string{"/1": "20", "/2": "10"}
		l := newRecorder(t, func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			if pause, ok := pauses[r.URL.Path]; ok {
				return newResponse(503, "Retry-After", pause)
			}
			return newResponse(200, "RateLimit", `"a";r=0;t=4`)
		})
		within := func(seconds int) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		l.start(t.Context(), "/0")
		time.Sleep(2 * time.Second)
		l.start(t.Context(), "/1") // is sent at 5 s, its response comes at 6 s
		l.start(t.Context(), "/2") // is sent at 26 s, its response comes at 27 s
		l.start(within(38), "/3")  // is sent at 37 s, its response comes at 38 s
		l.start(within(28), "/4")  // fails at 27 s
		l.start(within(18), "/5")  // fails at 6 s
		l.all.Wait()
		require.Equal(t, []string{"/0", "/1", "/2", "/3"}, l.paths)
		require.Equal(t, seconds(1, 6, 6, 27, 27, 38), l.ended)
	})
}

func TestLimiterDelaysRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := limiterOptions{Clock: time.Now}.New(nil,
			sluice.Rule[*http.Request]{Name: "host", Key: httplimit.KeyByHost, Spec: "gcra 2/10s"})
		require.NoError(t, err)
		c := newTransport(unlimited)
		c.Limiter = limiter
		require.Equal(t, seconds(0, 0, 5, 10), c.sequential(t, 4))
		get(t, c, "http://example.org/")
		require.Equal(t, 10*time.Second, c.sent[4], "another host")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, b := request(ctx, t)
		_, err = c.RoundTrip(r)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, b.closed)
		require.Len(t, c.sent, 5)
	})
}

// A request without a response may have used the refill, so others wait for a window, but no
// longer.
func TestRequestWithoutResponseDelaysOthersForAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(r *http.Request) (*http.Response, error) {
			if r.Method == "PUT" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return newResponse(200, "RateLimit", `"a";r=0;t=2`, "RateLimit-Policy", `"a";q=1;w=30`)
		})
		c.sequential(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			r, _ := request(ctx, t)
			_, err := c.RoundTrip(r)
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		time.Sleep(3 * time.Second)
		require.Equal(t, append(seconds(0, 2), 32*time.Second+slack), c.sequential(t, 1))
		cancel()
		all.Wait()
	})
}

// delayedResponse answers as the request's query says: after a delay, and with a RateLimit.
func delayedResponse(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	after, _ := time.ParseDuration(q.Get("after"))
	time.Sleep(after)
	return newResponse(200, "RateLimit", q.Get("limit"), "RateLimit-Policy", `"a";q=10;w=60`)
}

// send sends a request that gets a delayedResponse, and does not wait for it.
func (c *transport) send(t *testing.T, after, limit string) {
	t.Helper()
	go get(t, c, "http://example.com/?"+url.Values{"after": {after}, "limit": {limit}}.Encode())
	synctest.Wait()
}

// A response that was overtaken is outdated: the other response has counted the unit that it
// announces.
func TestOvertakenResponseIsOutdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(delayedResponse)
		c.send(t, "2s", `"a";r=1;t=1`)
		c.send(t, "1s", `"a";r=0;t=10`)
		time.Sleep(3 * time.Second)
		c.send(t, "0s", `"a";r=0;t=10`)
		time.Sleep(time.Minute)
		require.Equal(t, seconds(0, 0, 11), c.times())
	})
}

// While a request is in flight, the server may not have counted it. When all are answered,
// the reported number is exact.
func TestQuotaIsExactWhenAllAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(delayedResponse)
		c.send(t, "13s", `"a";r=0;t=10`)
		c.send(t, "14s", `"a";r=0;t=10`) // one came back, and was taken by this
		time.Sleep(15 * time.Second)
		c.send(t, "0s", `"a";r=0;t=10`)
		time.Sleep(2 * time.Minute)
		require.Equal(t, seconds(0, 0, 24), c.times())
	})
}

// The unit that came back may be for a request that is still in flight, so only the end of
// the window is certain.
func TestUnansweredRequestMayUseTheRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(delayedResponse)
		c.send(t, "2h", `"a";r=0;t=10`)
		c.send(t, "0s", `"a";r=0;t=10`)
		c.send(t, "0s", `"a";r=9;t=10`)
		time.Sleep(3 * time.Hour)
		require.Equal(t, append(seconds(0, 0), time.Minute+slack), c.times())
	})
}

// A request that failed may have reached the server.
func TestFailedRequestCountsAsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(r *http.Request) (*http.Response, error) {
			if r.Method == "PUT" {
				time.Sleep(time.Second)
				return nil, io.ErrUnexpectedEOF
			}
			return newResponse(200, "RateLimit", `"a";r=1;t=100`)
		})
		go c.requireError(t, io.ErrUnexpectedEOF)
		synctest.Wait()
		require.Len(t, c.sequential(t, 1), 2)
		time.Sleep(2 * time.Second)
		require.Equal(t, seconds(0, 0, 100), c.sequential(t, 1))
	})
}

// While the server is down, requests that cannot connect must not spend its quota. Otherwise
// the client would wait for a window after the server is back.
func TestRequestThatCannotConnectSpendsNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, remaining := false, 2
		c := newTransport(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Millisecond)
			if down {
				return nil, fmt.Errorf("a proxy says: %w", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
			}
			return newResponse(200, "RateLimit", fmt.Sprintf(`"a";r=%d;t=36`, remaining), "RateLimit-Policy", `"a";q=100;w=3600`)
		})
		refused := func(n int) {
			down = true
			for range n {
				c.requireError(t, syscall.ECONNREFUSED)
			}
			down = false
		}
		refused(5)
		c.sequential(t, 1)
		refused(100)
		require.Less(t, time.Since(c.began), time.Second)
		remaining = 0
		c.concurrent(t, 3)
		sent := c.times()
		require.Less(t, sent[len(sent)-2], time.Second)
		require.Greater(t, sent[len(sent)-1], 36*time.Second, "two remained")
	})
}

// The request took the unit that came back, and gives it back if it cannot connect.
func TestRefillIsNotSpentWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent int
		c := newTransport(func(*http.Request) (*http.Response, error) {
			if sent++; 1 < sent && sent < 5 {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return newResponse(200, "RateLimit", `"a";r=0;t=36`, "RateLimit-Policy", `"a";q=100;w=3600`)
		})
		get(t, c, "http://example.com/")
		for range 3 {
			c.requireError(t, syscall.ECONNREFUSED)
		}
		require.Equal(t, seconds(0, 36, 36, 36, 36, 72), c.sequential(t, 2))
	})
}

// While a response can still report more, no request fails because of an earlier one.
func TestRequestWaitsWhileAResponseMayAllowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(delayedResponse)
		c.send(t, "0s", `"a";r=0;t=1`)
		c.send(t, "5s", `"a";r=5;t=1`)
		time.Sleep(2 * time.Second) // it is on its way, and all is there again at 61s
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, _ := request(ctx, t)
		_, err := c.RoundTrip(r)
		require.NoError(t, err)
		require.Equal(t, seconds(0, 1, 6), c.times())
	})
}

func TestNewResponseWakesWaitingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(delayedResponse)
		c.send(t, "0s", `"a";r=0;t=2`)
		c.send(t, "1s", `"a";r=5;t=2`)
		time.Sleep(2500 * time.Millisecond)
		c.send(t, "0s", `"a";r=4;t=2`)
		time.Sleep(2 * time.Minute)
		require.Equal(t, seconds(0, 2, 3), c.times())
	})
}

func TestRoutesWithoutALimitAreDelayedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fields := []string{"RateLimit", `"a";r=0;t=5`}
		c := newTransport(func(*http.Request) (*http.Response, error) { return newResponse(200, fields...) })
		c.sequential(t, 1)
		fields = nil
		require.Equal(t, seconds(0, 5, 5, 5), c.sequential(t, 3))
	})
}

// Some servers report a limit only when they deny.
func TestUnreportedLimitExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		c := newTransport(func(*http.Request) (*http.Response, error) {
			if sent.Add(1) == 1 {
				return newResponse(429, "Retry-After", "1", "RateLimit", `"a";r=0;t=1`, "RateLimit-Policy", `"a";q=1000;w=60`)
			}
			time.Sleep(100 * time.Millisecond)
			return newResponse(200)
		})
		c.sequential(t, 1)
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		work(ctx, c, 50)
		require.Greater(t, sent.Load(), int64(28_000), "at most 30,000 are possible")
	})
}

func TestUnreportedLimitHoldsForAMinuteOrItsWindow(t *testing.T) {
	for window, pause := range map[int]int{1: 50, 100: 90} {
		synctest.Test(t, func(t *testing.T) {
			fields := []string{"RateLimit", `"a";r=0;t=1`, "RateLimit-Policy", fmt.Sprintf(`"a";q=1;w=%d`, window)}
			c := newTransport(func(*http.Request) (*http.Response, error) {
				time.Sleep(time.Second)
				return newResponse(200, fields...)
			})
			c.sequential(t, 1)
			fields = nil
			time.Sleep(time.Duration(pause) * time.Second)
			c.sequential(t, 1)
			c.concurrent(t, 3)
			require.Equal(t, seconds(pause+2, pause+3, pause+4), c.times()[2:], "only as many as the server certainly accepts")
		})
	}
}

// A request to a route without a limit gives back the unit that it seemed to take, but no more.
func TestRoutesWithoutALimitAddNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fields := []string{"RateLimit", `"a";r=0;t=5`, "RateLimit-Policy", `"a";q=1;w=5`}
		reported := fields
		c := newTransport(func(*http.Request) (*http.Response, error) { return newResponse(200, fields...) })
		c.sequential(t, 1)
		fields = nil
		c.sequential(t, 1)
		time.Sleep(20 * time.Second)
		fields = reported
		c.concurrent(t, 2)
		require.Equal(t, seconds(0, 5, 25, 30), c.times())
	})
}

// Clients that do not know of each other share a limit.
func TestClientsThatShareALimitGetFewDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limiterOptions{Clock: time.Now}, nil, rule("client", "gcra 60/m burst=10"))
		w := newWire(httplimit.Handler(limiter, hello, httplimit.Options{}), 100*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for range 3 { // each with a Transport of its own
			client := &httplimit.Transport{Base: w}
			all.Go(func() { work(ctx, client, 1) })
		}
		all.Wait()
		t.Log(w.statuses)
		require.Greater(t, w.statuses[http.StatusOK], 500)
		require.Less(t, w.statuses[http.StatusTooManyRequests], 3*w.statuses[http.StatusOK])
	})
}

// Transport forgets hosts about which it knows nothing that matters, also if their requests
// failed or panicked.
func TestUnusedHostsAreForgotten(t *testing.T) {
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"quota":    func(*http.Request) (*http.Response, error) { return newResponse(200, "RateLimit", `"a";r=0;t=5`) },
		"backoff":  func(*http.Request) (*http.Response, error) { return newResponse(503) },
		"no reply": func(*http.Request) (*http.Response, error) { return nil, errors.New("reset") },
		"panic":    func(*http.Request) (*http.Response, error) { panic("the base") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTransport(answer)
				for i := range 2000 {
					r, _ := request(t.Context(), t)
					r.URL.Host = fmt.Sprintf("%d.example.com", i)
					func() {
						defer func() { _ = recover() }()
						_, _ = c.RoundTrip(r)
					}()
					time.Sleep(6 * time.Minute)
				}
				require.Less(t, c.Queues(), 100)
			})
		})
	}
}

// A server is remembered while anything that is known about it matters.
func TestUsedHostsAreRemembered(t *testing.T) {
	for name, test := range map[string]struct {
		answer  func() (*http.Response, error) // for the first host
		pending int                            // requests to the first host, when the others were sent
		sent    []time.Duration
	}{
		"pause":   {func() (*http.Response, error) { return newResponse(429, "Retry-After", "3000") }, 0, seconds(0, 3000, 6000)},
		"quota":   {func() (*http.Response, error) { return newResponse(200, "RateLimit", `"a";r=0;t=3000`) }, 0, seconds(0, 3000, 6000)},
		"backoff": {func() (*http.Response, error) { return newResponse(429) }, 0, seconds(0, 2000, 2002)},
		"in flight": {func() (*http.Response, error) {
			time.Sleep(3000 * time.Second)
			return newResponse(200, "RateLimit", `"a";r=0;t=1`)
		}, 1, seconds(0, 2000, 5001)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTransport(func(r *http.Request) (*http.Response, error) {
					if r.URL.Host != "example.com" {
						return newResponse(200)
					}
					return test.answer()
				})
				var all sync.WaitGroup
				all.Go(func() { get(t, c, "http://example.com/") })
				for i := range 2000 {
					get(t, c, fmt.Sprintf("http://%d.example.com/", i))
					time.Sleep(time.Second)
				}
				require.Equal(t, test.pending, c.Pending())
				all.Go(func() { c.sequential(t, 2) })
				all.Wait()
				times := c.times()
				require.Equal(t, test.sent, append(times[:1:1], times[2001:]...))
			})
		})
	}
}

// pipes is a net.Listener with connections in memory, so that synctest can control the time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

func (p *pipes) Dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

func TestTransportAndHandlerOverNetHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, limiterOptions{Clock: time.Now}, nil, rule("client", "gcra 10/s"), rule("day", "fixedwindow 1000/d"))
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: httplimit.Handler(limiter, hello, httplimit.Options{})}
		go func() { _ = server.Serve(listener) }()
		base := &http.Transport{DialContext: listener.Dial}
		client := &http.Client{Transport: &httplimit.Transport{Base: base}}
		began := time.Now()
		for range 100 {
			response, err := client.Get("http://example.com/")
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusOK, response.StatusCode)
		}
		require.Equal(t, 9*time.Second, time.Since(began))
		base.CloseIdleConnections()
		require.NoError(t, server.Close())
	})
}

// The request that used the refill cannot connect. Meanwhile the server has reported two remaining
// requests, which include that refill. So a third request must wait for the next refill.
func TestRefillThatWasReportedIsNotGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		c := newTransport(func(*http.Request) (*http.Response, error) {
			n := sent.Add(1)
			time.Sleep(time.Duration([]int{0, 5, 6, 10, 10, 10}[n-1]) * time.Second)
			if n == 3 {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			remaining := []int{1, 2, 0, 1, 0, 0}[n-1]
			return newResponse(200, "RateLimit", fmt.Sprintf(`"a";r=%d;t=10`, remaining), "RateLimit-Policy", `"a";q=3;w=30`)
		})
		get(t, c, "http://example.com/")
		time.Sleep(20 * time.Second)
		go get(t, c, "http://example.com/")
		synctest.Wait()
		c.requireError(t, syscall.ECONNREFUSED)
		c.concurrent(t, 3)
		require.Equal(t, seconds(0, 20, 20, 26, 26, 35), c.times())
	})
}

// Others that share the limit have used some of it.
func TestLowerReportCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := []int{5, 1, 0, 0}
		c := newTransport(func(*http.Request) (*http.Response, error) {
			defer func() { reports = reports[1:] }()
			return newResponse(200, "RateLimit", fmt.Sprintf(`"a";r=%d;t=10`, reports[0]), "RateLimit-Policy", `"a";q=9;w=90`)
		})
		require.Equal(t, seconds(0, 0, 0, 10), c.sequential(t, 4))
	})
}

// A second request has used the refill meanwhile. The server may have no room for a third one.
func TestRefillThatAnotherRequestUsedIsNotGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		c := newTransport(func(*http.Request) (*http.Response, error) {
			n := sent.Add(1)
			time.Sleep(time.Duration([]int{0, 35, 20, 0}[n-1]) * time.Second)
			if n == 2 {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return newResponse(200, "RateLimit", `"a";r=0;t=10`, "RateLimit-Policy", `"a";q=1;w=30`)
		})
		c.sequential(t, 1)
		go c.requireError(t, syscall.ECONNREFUSED)
		synctest.Wait()
		c.concurrent(t, 2)
		require.Equal(t, append(seconds(0, 10), 40*time.Second+slack, 70*time.Second+slack), c.times())
	})
}
