package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

// within limits a Transport to a policy of its own.
func within(t *testing.T, store storage.Store, spec string) *compose.Limiter[*http.Request] {
	t.Helper()
	limiter, err := compose.Options[*http.Request]{Clock: time.Now}.New(store, rule("own", spec))
	require.NoError(t, err)
	return limiter
}

// together sends requests at once, and returns when all are answered.
func (c *transport) together(t *testing.T, n int) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() { get(t, c, "http://example.com/") })
	}
	all.Wait()
}

// Many that are denied together are told once that they were too many.
func TestDenialsTogetherAreOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return says(503)
		})
		c.together(t, 20)
		require.Equal(t, seconds(2, 5), c.asked(t, 2)[20:], "a second after the answers at 1, and two after that at 3")
	})
}

// The answers of those that were sent together may come one by one, after others
// were let in, too.
func TestALateDenialStopsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan time.Duration, 3)
		for _, after := range []time.Duration{1, 3, 10} {
			answers <- after * time.Second
		}
		c := newTransport(func(*http.Request) (*http.Response, error) {
			select {
			case after := <-answers:
				time.Sleep(after)
				return says(429)
			default:
				return says(200)
			}
		})
		c.together(t, 3)
		require.Equal(t, []time.Duration{11 * time.Second, 11100 * time.Millisecond}, c.asked(t, 2)[3:])
	})
}

// A server that lets some in and denies the rest in silence is asked every second.
func TestDenialsBesideSuccesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := within(t, nil, "gcra 5/s burst=5")
		c := newTransport(func(r *http.Request) (*http.Response, error) {
			time.Sleep(20 * time.Millisecond)
			if d, err := limiter.Allow(r.Context(), r); err != nil || !d.Allowed {
				return says(429)
			}
			return says(200)
		})
		for range 4 {
			c.together(t, 15)
		}
		times := c.times()
		for i := 1; i < len(times); i++ {
			require.LessOrEqual(t, times[i]-times[i-1], time.Second+20*time.Millisecond, "%v", times)
		}
	})
}

// What was sent before the denials, and is answered late, is no sign that they are over.
func TestAnOldSuccessEndsNoBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut {
				time.Sleep(5 * time.Second)
				return says(200)
			}
			return says(503)
		})
		go func() {
			r, _ := request(t.Context(), t)
			_, _ = c.RoundTrip(r)
		}()
		synctest.Wait()
		require.Equal(t, seconds(0, 0, 1, 3, 7, 15), c.asked(t, 5))
	})
}

// requireApart checks that a limit of one in so long was kept.
func requireApart(t *testing.T, least time.Duration, times []time.Duration) {
	t.Helper()
	for i := 1; i < len(times); i++ {
		require.GreaterOrEqual(t, times[i]-times[i-1], least, "%v", times)
	}
}

// While the server stops all, what the limiter allows does not pile up.
func TestNoBurstAfterAStop(t *testing.T) {
	for name, slow := range map[string]time.Duration{"before they ask": 0, "while they wait": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				c := newTransport(func(*http.Request) (*http.Response, error) {
					if sent.Add(1) > 1 {
						return says(200)
					}
					time.Sleep(slow)
					return says(429, "Retry-After", "3")
				})
				c.Limiter = within(t, nil, "gcra 5/s burst=1")
				c.together(t, 13)
				requireApart(t, 200*time.Millisecond, c.times())
			})
		})
	}
}

// newStopping is a Transport on a server that stops all with its first answer, a 503 with
// such fields, and answers as it is told from then on.
func newStopping(then func() (*http.Response, error), fields ...string) *transport {
	var sent atomic.Int64
	return newTransport(func(*http.Request) (*http.Response, error) {
		if sent.Add(1) == 1 {
			return says(503, fields...)
		}
		return then()
	})
}

func letIn() (*http.Response, error) { return says(200) }

// What waited for a stop to end is not sent at once to a server that tells of no limit,
// whatever becomes of what is sent.
func TestAfterAStopOneIsSentFirst(t *testing.T) {
	ms := time.Millisecond
	for name, answer := range map[string]func() (*http.Response, error){
		"and is let in":      letIn,
		"and hangs":          func() (*http.Response, error) { time.Sleep(time.Hour); return says(200) },
		"and fails":          func() (*http.Response, error) { return nil, errors.New("reset") },
		"and may come again": func() (*http.Response, error) { return says(429, "Retry-After", "0") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newStopping(answer, "Retry-After", "10")
				c.asked(t, 1)
				for range 2000 {
					go func() {
						r, _ := request(t.Context(), t)
						_, _ = c.RoundTrip(r)
					}()
				}
				time.Sleep(12 * time.Second)
				at := make(map[time.Duration]int)
				for _, when := range c.times()[1:] {
					at[when]++
				}
				require.Equal(t, map[time.Duration]int{
					10_000 * ms: 1, 10_100 * ms: 1, 10_200 * ms: 2, 10_300 * ms: 4, 10_400 * ms: 8, 10_500 * ms: 16,
					10_600 * ms: 32, 10_700 * ms: 64, 10_800 * ms: 128, 10_900 * ms: 256, 11_000 * ms: 1488,
				}, at)
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// A server that told a limit may be no better for it.
func TestAfterAStopOfALimitedServerOneIsSentFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		c := newTransport(func(*http.Request) (*http.Response, error) {
			switch sent.Add(1) {
			case 1:
				return says(200, "RateLimit", `"a";r=2000;t=1`, "RateLimit-Policy", `"a";q=2000;w=60`)
			case 2:
				return says(503, "Retry-After", "10")
			}
			return says(200)
		})
		c.asked(t, 2)
		c.together(t, 1000)
		at := make(map[time.Duration]int)
		for _, when := range c.times()[2:] {
			at[when]++
		}
		require.Equal(t, 1, at[10*time.Second])
		require.Equal(t, 256, at[10*time.Second+900*time.Millisecond])
		require.Equal(t, 488, at[11*time.Second])
	})
}

// A stop that nobody waited for is over when it is over.
func TestLongAfterAStopAllAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStopping(letIn, "Retry-After", "10")
		c.asked(t, 1)
		time.Sleep(11 * time.Second)
		c.together(t, 50)
		require.Equal(t, slices.Repeat(seconds(11), 50), c.times()[1:])
	})
}

// Those who have their turn and ask the limiter count as sent.
func TestAfterAStopNoMoreAskThanAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStopping(letIn, "Retry-After", "10")
		c.asked(t, 1)
		asked := make(map[compose.Op]int)
		c.Limiter = counted(t, slow{new(memory.Store)}, asked, rule("own", "fixedwindow 1000/h"))
		c.together(t, 9)
		require.Equal(t, map[compose.Op]int{compose.OpAllow: 9}, asked)
		for i, when := range c.times()[1:] {
			require.GreaterOrEqual(t, when, 10*time.Second+time.Duration(bits.Len(uint(i)))*100*time.Millisecond)
		}
	})
}

func TestAfterAStopMaxPauseHoldsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStopping(letIn)
		c.MaxPause = 100 * time.Millisecond
		c.asked(t, 1)
		c.together(t, 2000)
		require.Equal(t, 200*time.Millisecond, time.Since(c.began))
	})
}

// Nor does it while there is nothing left of what the server told.
func TestNoBurstWhenMoreIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fields := []string{"RateLimit", `"a";r=0;t=60`}
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(200, fields...) })
		c.Limiter = within(t, nil, "gcra 5/s burst=1")
		c.asked(t, 1)
		fields = []string{"RateLimit", `"a";r=100;t=1`}
		c.together(t, 12)
		requireApart(t, 200*time.Millisecond, c.times())
	})
}

func TestWhatIsNotSentIsNotPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(429, "Retry-After", "2") })
		c.Limiter = within(t, nil, "fixedwindow 5/h")
		for range 6 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			r, _ := request(ctx, t)
			_, _ = c.RoundTrip(r)
			cancel()
		}
		require.Len(t, c.times(), 1)
		require.EqualValues(t, 4, left(t, &c.Transport))
	})
}

func left(t *testing.T, c *httplimit.Transport) int64 {
	t.Helper()
	r, _ := request(t.Context(), t)
	d, err := c.Limiter.Peek(t.Context(), r)
	require.NoError(t, err)
	return d.Remaining
}

// Whichever of the two limits is the lower, it is used up, neither is exceeded, and
// no more is paid than is sent.
func TestTheLowerOfBothLimits(t *testing.T) {
	for _, test := range []struct{ server, own string }{
		{"gcra 5/s", "gcra 100/s"}, {"gcra 5/s", "gcra 5/s burst=1"}, {"gcra 100/s", "gcra 5/s burst=1"},
		{"fixedwindow 50/10s", "tokenbucket 10/s burst=50"}, {"tokenbucket 10/s burst=50 refill=interval", "fixedwindow 50/10s"},
	} {
		for _, workers := range []int{1, 20} {
			for name, store := range map[string]storage.Store{"memory": nil, "far": slow{new(memory.Store)}} {
				t.Run(fmt.Sprintf("%s within %s by %d, %s", test.own, test.server, workers, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { lower(t, test.server, test.own, workers, store) })
				})
			}
		}
	}
}

func lower(t *testing.T, server, own string, workers int, store storage.Store) {
	w := newWire(httplimit.Handler(within(t, nil, server), hello, httplimit.Options{}), 10*time.Millisecond)
	client := &httplimit.Transport{Base: w}
	get(t, client, "http://example.com/")
	limiter, err := compose.Options[*http.Request]{Clock: time.Now}.New(store, rule("own", own), rule("sum", "fixedwindow 10000/d"))
	require.NoError(t, err)
	client.Limiter = limiter
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute-time.Millisecond)
	defer cancel()
	work(ctx, client, workers)
	sent := int64(w.seen[http.StatusOK] + w.seen[http.StatusServiceUnavailable]) // which is for contexts that end
	require.Zero(t, w.seen[http.StatusTooManyRequests])
	lowest := min(sluice.MustPolicy(server).Bound(2*time.Minute), sluice.MustPolicy(own).Bound(2*time.Minute))
	require.LessOrEqual(t, sent-1, lowest)
	require.GreaterOrEqual(t, float64(sent), 0.8*float64(lowest))
	r, _ := request(t.Context(), t)
	d, err := limiter.Peek(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, 10_000-(sent-1), d.Results[1].Remaining)
}

// slow is a store that takes a while for all.
type slow struct{ storage.Store }

func (s slow) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	time.Sleep(5 * time.Millisecond)
	return s.Store.Load(ctx, keys...)
}

func (s slow) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	time.Sleep(5 * time.Millisecond)
	return s.Store.CompareAndSwap(ctx, swaps...)
}

// slowUpdates takes time for each decision, and decides all at once.
type slowUpdates struct{ driver.InPlace }

func (s slowUpdates) Update(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
	time.Sleep(10 * time.Millisecond)
	return s.InPlace.Update(ctx, now, keys, d)
}

// The server may stop all while the limiter decides. What it allowed is given back.
func TestAStopWhileTheLimiterDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) {
			time.Sleep(5 * time.Millisecond)
			return says(429, "Retry-After", "60")
		})
		c.Limiter = within(t, slow{new(memory.Store)}, "fixedwindow 10/h")
		go get(t, c, "http://example.com/")
		time.Sleep(12 * time.Millisecond) // so that the other asks before the answer, and is allowed after it
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, b := request(ctx, t)
		_, err := c.RoundTrip(r)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, b.closed)
		require.Len(t, c.times(), 1)
		require.EqualValues(t, 9, left(t, &c.Transport))
	})
}

// drying is a store that is slow, and stuck from some time on.
type drying struct {
	slow
	dry *atomic.Bool
}

func (d drying) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if d.dry.Load() {
		return stuck{}.Load(ctx, keys...)
	}
	return d.slow.Load(ctx, keys...)
}

func (d drying) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if d.dry.Load() {
		return stuck{}.CompareAndSwap(ctx, swaps...)
	}
	return d.slow.CompareAndSwap(ctx, swaps...)
}

// Giving back holds up who leaves for no longer than the timeout of the limiter.
func TestGivingBackToAStoreThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, func(*http.Request) (*http.Response, error) {
			time.Sleep(5 * time.Millisecond)
			return says(429, "Retry-After", "60")
		})
		store := drying{slow{new(memory.Store)}, new(atomic.Bool)}
		options := compose.Options[*http.Request]{Clock: time.Now, Timeout: 500 * time.Millisecond}
		limiter, err := options.New(store, rule("own", "gcra 100/s"))
		require.NoError(t, err)
		l.Limiter = limiter
		l.join(t.Context(), "/") // sent at 10ms, answered at 15ms
		time.Sleep(12 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		l.join(ctx, "/") // is allowed at 22ms
		time.Sleep(6 * time.Millisecond)
		store.dry.Store(true)
		time.AfterFunc(12*time.Millisecond, cancel)
		l.all.Wait()
		require.Equal(t, []time.Duration{15 * time.Millisecond, 522 * time.Millisecond}, l.ended)
		require.Len(t, l.paths, 1)
	})
}

// A store that fails fails the request, or does not, as the limiter's policy says.
func TestTheStoreOfTheLimiterFails(t *testing.T) {
	for policy, want := range map[compose.FailurePolicy]error{
		compose.FailClosed: storage.ErrUnavailable, compose.FailOpen: nil, compose.FailLocal: nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newTransport(func(*http.Request) (*http.Response, error) { return says(200) })
			options := compose.Options[*http.Request]{Clock: time.Now, OnFailure: policy}
			limiter, err := options.New(stuck{new(memory.Store)}, rule("own", "gcra 1/s"))
			require.NoError(t, err)
			c.Limiter = limiter
			r, b := request(t.Context(), t)
			_, err = c.RoundTrip(r)
			require.ErrorIs(t, err, want)
			require.Equal(t, want != nil, b.closed)
			require.Equal(t, want == nil, len(c.times()) == 1)
		})
	}
}

// Whoever holds a request back for too long, it is a timeout.
func TestHeldBackForTooLongIsATimeout(t *testing.T) {
	for _, test := range []struct {
		spec   string
		cost   int64
		fields []string
		want   string
	}{
		{"gcra 100/s", 1, []string{"Retry-After", "5"}, "the server requires a wait of 5s, which is longer than the context lasts: context deadline exceeded"},
		{"gcra 1/h", 1, nil, `the rule "own" requires a wait of 1h0m0s, which is longer than the context lasts`},
		{"gcra 1/h", 2, nil, `the rule "own" will never allow it: context deadline exceeded`},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newTransport(func(*http.Request) (*http.Response, error) {
				return says(429, append(test.fields, "Retry-After", "0")...)
			})
			client := &http.Client{Transport: c, Timeout: time.Second}
			cost := int64(1)
			own := rule("own", test.spec)
			own.Cost = func(*http.Request) int64 { return cost }
			limiter, err := compose.Options[*http.Request]{Clock: time.Now}.New(nil, own)
			require.NoError(t, err)
			c.Limiter = limiter
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

// Who waited, and for whom, is told also of those whose context ends while it was not
// certain that it would.
func TestTheErrorTellsWhoHeldItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStopping(func() (*http.Response, error) { time.Sleep(time.Minute); return says(200) }, "Retry-After", "10")
		c.asked(t, 1)
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

func TestTheCauseOfALeaveIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStopping(letIn, "Retry-After", "60")
		c.asked(t, 1)
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

func TestFailuresAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(503) })
		c.MaxPause = 10 * time.Second
		for i := range 2000 {
			get(t, c, fmt.Sprintf("http://%d.example.com/", i))
			time.Sleep(time.Second)
		}
		require.Less(t, c.Queues(), 100)
	})
}

// What panics is no reason to remember a host, nor to wait for an answer.
func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(r *http.Request) (*http.Response, error) {
			if r.Method == "PUT" {
				panic("the base")
			}
			return says(200, "RateLimit", `"a";r=0;t=2`, "RateLimit-Policy", `"a";q=1;w=30`)
		})
		r, _ := request(t.Context(), t)
		require.Panics(t, func() { _, _ = c.RoundTrip(r) })
		require.Equal(t, seconds(0, 0, 2, 4), c.asked(t, 3))
	})
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(200) })
		limiter, err := compose.New(nil, compose.Rule[*http.Request]{
			Name: "own", Spec: "gcra 1/s", Cost: func(*http.Request) int64 { panic("the cost") },
		})
		require.NoError(t, err)
		c.Limiter = limiter
		for i := range 200 {
			r, _ := request(t.Context(), t)
			r.URL.Host = fmt.Sprintf("%d.example.com", i)
			require.Panics(t, func() { _, _ = c.RoundTrip(r) })
		}
		require.Less(t, c.Queues(), 100)
	})
}

// pool is a base that counts how often its connections are closed.
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
	client.CloseIdleConnections() // does nothing, for it has nothing
}
