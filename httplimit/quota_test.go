package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/httplimit"
)

// wire carries requests to a handler, and keeps each way a while, so that they and
// their answers overtake each other.
type wire struct {
	http.Handler
	slowest time.Duration
	mu      sync.Mutex
	random  *rand.Rand
	seen    map[int]int // responses by status
}

func newWire(h http.Handler, slowest time.Duration) *wire {
	return &wire{Handler: h, slowest: slowest, random: rand.New(rand.NewPCG(1, 2)), seen: make(map[int]int)}
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(w.delay())
	response := respond(w.Handler, r)
	time.Sleep(w.delay())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[response.StatusCode]++
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

// A client that heeds what our Handler tells is never denied, however many requests
// it makes at once and however they overtake each other; and it gets most of what
// there is.
func TestNeverDeniedInSteadyState(t *testing.T) {
	for _, spec := range []string{
		"gcra 5/s", "gcra 100/m burst=20", "gcra 10/m", "tokenbucket 10/s burst=50 refill=interval", "tokenbucket 6/m burst=2",
		"fixedwindow 20/10s", "fixedwindow 5/s align=clock", "fixedwindow 60/m align=clock", "movingwindow 20/10s slots=10", "movingwindow 20/10s slots=10 trailing=whole",
		"all(gcra 5/s; gcra 100/m)",
	} {
		for _, workers := range []int{1, 3, 20} {
			for _, slowest := range []time.Duration{0, 10 * time.Millisecond, time.Second} {
				t.Run(fmt.Sprint(spec, " by ", workers, " over ", slowest), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { steady(t, spec, workers, slowest) })
				})
			}
		}
	}
}

func steady(t *testing.T, spec string, workers int, slowest time.Duration) {
	limiter, err := compose.Options[*http.Request]{Clock: time.Now}.New(nil, rule("client", spec))
	require.NoError(t, err)
	w := newWire(httplimit.Handler(limiter, hello, httplimit.Options{}), slowest)
	client := &httplimit.Transport{Base: w}
	get(t, client, "http://example.com/") // its answer is the first that tells anything
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	work(ctx, client, workers)
	require.Zero(t, w.seen[http.StatusTooManyRequests])
	if slowest <= 10*time.Millisecond { // longer ways limit by themselves
		policy := sluice.MustPolicy(spec)
		full, err := policy.Peek(nil, still(), 1)
		require.NoError(t, err)
		steadily := policy.Bound(2*time.Minute) - full.Limit
		require.GreaterOrEqual(t, float64(w.seen[http.StatusOK]), 0.9*float64(steadily))
	}
}

// work sends requests by so many at once, until there is no time for another.
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

// transport is a Transport on a server that answers as the test says, and counts.
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

// says makes a response of a status and fields, given as name and value in turn.
func says(status int, fields ...string) (*http.Response, error) {
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

// asked sends requests one after the other, and tells when each was sent.
func (c *transport) asked(t *testing.T, n int) []time.Duration {
	t.Helper()
	for range n {
		get(t, c, "http://example.com/")
	}
	return c.times()
}

func (c *transport) times() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}

func TestStopsForRetryAfter(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		fields func() []string
		want   []time.Duration
	}{
		"429":                       {429, func() []string { return []string{"Retry-After", "7"} }, seconds(0, 7, 14)},
		"503":                       {503, func() []string { return []string{"Retry-After", "7"} }, seconds(0, 7, 14)},
		"longer than RateLimit":     {429, func() []string { return []string{"Retry-After", "7", "RateLimit", `"a";r=0;t=2`} }, seconds(0, 7, 14)},
		"not of other statuses":     {301, func() []string { return []string{"Retry-After", "7"} }, seconds(0, 0, 0)},
		"0 is at once":              {429, func() []string { return []string{"Retry-After", "0"} }, seconds(0, 0, 0)},
		"no longer than an hour":    {429, func() []string { return []string{"Retry-After", "999999999999999999"} }, seconds(0, 3600, 7200)},
		"more than can be counted":  {429, func() []string { return []string{"Retry-After", "99999999999999999999"} }, seconds(0, 3600, 7200)},
		"without it, ever longer":   {429, func() []string { return nil }, seconds(0, 1, 3)},
		"t in its place":            {429, func() []string { return []string{"RateLimit", `"a";r=4;t=7`} }, seconds(0, 7, 14)},
		"r without t tells no time": {429, func() []string { return []string{"RateLimit", `"a";r=0`} }, seconds(0, 1, 3)},
		"nor is 0 any":              {503, func() []string { return []string{"RateLimit", `"a";r=0;t=0`} }, seconds(0, 1, 3)},
		"nonsense is none":          {503, func() []string { return []string{"Retry-After", "-1"} }, seconds(0, 1, 3)},
		"a date": {429, func() []string {
			return []string{"Retry-After", time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat)}
		}, seconds(0, 9, 18)},
		"a date by another clock": {429, func() []string {
			return []string{"Retry-After", "Thu, 01 Jan 2026 12:00:05 GMT", "Date", "Thu, 01 Jan 2026 12:00:00 GMT"}
		}, seconds(0, 5, 10)},
		"a date that has passed": {429, func() []string { return []string{"Retry-After", "Thu, 01 Jan 1970 12:00:05 GMT"} }, seconds(0, 0, 0)},
		"RateLimit on a 200":     {200, func() []string { return []string{"RateLimit", `"a";r=0;t=3`} }, seconds(0, 3, 6)},
		"the one that binds":     {200, func() []string { return []string{"RateLimit", `"a";r=5;t=9, "b";r=0;t=3`, "RateLimit", `"c";r=0;t=4`} }, seconds(0, 4, 8)},
		"without t, a second":    {200, func() []string { return []string{"RateLimit", `"a";r=0`} }, seconds(0, 1, 2)},
		"malformed, nothing":     {200, func() []string { return []string{"RateLimit", `"a";r=0;t=3,`} }, seconds(0, 0, 0)},
		"other forms, nothing":   {200, func() []string { return []string{"RateLimit", `limit=10, remaining=0, reset=50`} }, seconds(0, 0, 0)},
		"a negative r, nothing":  {200, func() []string { return []string{"RateLimit", `"a";r=-1;t=3`} }, seconds(0, 0, 0)},
		"other units": {200, func() []string {
			return []string{"RateLimit", `"a";r=1;t=3`, "RateLimit-Policy", `"a";q=5;qu="content-bytes"`}
		}, seconds(0, 0, 0)},
		"other units, nothing left": {200, func() []string {
			return []string{"RateLimit", `"a";r=0;t=3`, "RateLimit-Policy", `"a";q=5;qu="content-bytes"`}
		}, seconds(0, 3, 6)},
		"concurrency": {200, func() []string {
			return []string{"RateLimit", `"a";r=0;t=3`, "RateLimit-Policy", `"a";q=5;qu="concurrent-requests"`}
		}, seconds(0, 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTransport(func(*http.Request) (*http.Response, error) { return says(test.status, test.fields()...) })
				require.Equal(t, test.want, c.asked(t, 3))
			})
		})
	}
}

// Of a server that tells of very many limits, each is looked at once.
func TestVeryLongFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, policies := strings.Repeat(`"a";r=1,`, 100_000)+`"z";r=0;t=3`, strings.Repeat(`"b",`, 200_000)+`"z";qu="content-bytes"`
		c := newTransport(func(*http.Request) (*http.Response, error) {
			return says(200, "RateLimit", limits, "RateLimit-Policy", policies)
		})
		require.Equal(t, seconds(0, 3), c.asked(t, 2))
	})
}

func TestStopsEndWithASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		statuses := []int{429, 429, 429, 200, 429, 200}
		c := newTransport(func(*http.Request) (*http.Response, error) {
			status := statuses[0]
			statuses = statuses[1:]
			return says(status)
		})
		tenth := 100 * time.Millisecond // after the first that is let in
		require.Equal(t, append(seconds(0, 1, 3, 7), 7*time.Second+tenth, 8*time.Second+tenth), c.asked(t, 6))
	})
}

// Of two that stop for different times, the longer holds.
func TestAShorterStopEndsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(r *http.Request) (*http.Response, error) {
			if r.Method == "PUT" {
				time.Sleep(time.Second)
				return says(503, "Retry-After", "2")
			}
			return says(429, "Retry-After", "60")
		})
		go func() {
			r, _ := request(t.Context(), t)
			_, _ = c.RoundTrip(r)
		}()
		synctest.Wait()
		require.Equal(t, seconds(0, 0, 60), c.asked(t, 2))
	})
}

func TestANegativeMaxPauseIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(429, "Retry-After", "7200") })
		c.MaxPause = -time.Second
		require.Equal(t, seconds(0, 3600), c.asked(t, 2))
	})
}

func TestMaxPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) {
			return says(429, "Retry-After", "100", "RateLimit", `"a";r=0;t=100`)
		})
		c.MaxPause = 10 * time.Second
		require.Equal(t, seconds(0, 10, 20), c.asked(t, 3))
	})
}

func TestHostsAreLimitedByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(429, "Retry-After", "5") })
		for _, host := range []string{"example.com", "Example.com", "example.com:80", "example.com."} {
			get(t, c, "http://"+host+"/")
		}
		require.Equal(t, seconds(0, 5, 10, 15), c.sent, "one by four names")
	})
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(429, "Retry-After", "5") })
		for _, host := range []string{"a", "b", "a:81", "a"} {
			get(t, c, "http://"+host+"/")
		}
		require.Equal(t, seconds(0, 0, 0, 5), c.sent)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(429, "Retry-After", "5") })
		c.Key = func(r *http.Request) string { return r.URL.Path }
		for _, path := range []string{"a/1", "b/1", "b/2"} {
			get(t, c, "http://"+path)
		}
		require.Equal(t, seconds(0, 5, 5), c.sent)
	})
}

// body tells whether it was closed.
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

func TestTheContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(429, "Retry-After", "60") })
		get(t, c, "http://example.com/")

		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		r, b := request(ctx, t)
		_, err := c.RoundTrip(r)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, time.Since(c.began), "at once, for there is no hope")
		require.True(t, b.closed)

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		r, b = request(ctx, t)
		_, err = c.RoundTrip(r)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 10*time.Second, time.Since(c.began))
		require.True(t, b.closed)

		require.Equal(t, seconds(0, 60), c.asked(t, 1), "nothing was sent")
	})
}

func TestTheLimiterIsAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := compose.Options[*http.Request]{Clock: time.Now}.New(nil,
			compose.Rule[*http.Request]{Name: "host", Key: httplimit.KeyByHost, Spec: "gcra 2/10s"})
		require.NoError(t, err)
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(200) })
		c.Limiter = limiter
		require.Equal(t, seconds(0, 0, 5, 10), c.asked(t, 4))
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

// What was left is not taken twice by requests that are sent at once.
func TestNoMoreThanWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Minute)
			return says(200, "RateLimit", `"a";r=3;t=600`)
		})
		c.asked(t, 1)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { get(t, c, "http://example.com/") })
		}
		synctest.Wait()
		require.Len(t, c.times(), 1+3)
		all.Wait()
	})
}

// A request whose answer never comes holds the others back for a window, not for
// ever.
func TestALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(r *http.Request) (*http.Response, error) {
			if r.Method == "PUT" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return says(200, "RateLimit", `"a";r=0;t=2`, "RateLimit-Policy", `"a";q=1;w=30`)
		})
		c.asked(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			r, _ := request(ctx, t)
			_, err := c.RoundTrip(r)
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		time.Sleep(3 * time.Second)
		require.Equal(t, seconds(0, 2, 32), c.asked(t, 1))
		cancel()
		all.Wait()
	})
}

// late answers at once or after a while, as the request's query tells, with the
// fields that it tells.
func late(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	after, _ := time.ParseDuration(q.Get("after"))
	time.Sleep(after)
	return says(200, "RateLimit", q.Get("limit"), "RateLimit-Policy", `"a";q=10;w=60`)
}

// told sends a request that is answered so, and does not wait for it.
func (c *transport) told(t *testing.T, after, limit string) {
	t.Helper()
	go get(t, c, "http://example.com/?"+url.Values{"after": {after}, "limit": {limit}}.Encode())
	synctest.Wait()
}

// An answer that was overtaken is old news: that there is more after its t was
// counted by the one that overtook it.
func TestAnOvertakenAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(late)
		c.told(t, "2s", `"a";r=1;t=1`)
		c.told(t, "1s", `"a";r=0;t=10`)
		time.Sleep(3 * time.Second)
		c.told(t, "0s", `"a";r=0;t=10`)
		time.Sleep(time.Minute)
		require.Equal(t, seconds(0, 0, 11), c.times())
	})
}

// While a request is unanswered the server may not have counted it. When all are
// answered, there is no doubt left.
func TestAllAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(late)
		c.told(t, "13s", `"a";r=0;t=10`)
		c.told(t, "14s", `"a";r=0;t=10`) // one came back, and was taken by this
		time.Sleep(15 * time.Second)
		c.told(t, "0s", `"a";r=0;t=10`)
		time.Sleep(2 * time.Minute)
		require.Equal(t, seconds(0, 0, 24), c.times())
	})
}

// What grew may be for one that is on its way still.
func TestOneThatIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(late)
		c.told(t, "2h", `"a";r=0;t=10`)
		c.told(t, "0s", `"a";r=0;t=10`)
		c.told(t, "0s", `"a";r=9;t=10`)
		time.Sleep(3 * time.Hour)
		require.Equal(t, seconds(0, 0, 60), c.times(), "when all is there again")
	})
}

// A request that failed may have arrived all the same.
func TestOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(r *http.Request) (*http.Response, error) {
			if r.Method == "PUT" {
				time.Sleep(time.Second)
				return nil, io.ErrUnexpectedEOF
			}
			return says(200, "RateLimit", `"a";r=1;t=100`)
		})
		go func() {
			r, _ := request(t.Context(), t)
			_, err := c.RoundTrip(r)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}()
		synctest.Wait()
		require.Len(t, c.asked(t, 1), 2)
		time.Sleep(2 * time.Second)
		require.Equal(t, seconds(0, 0, 100), c.asked(t, 1))
	})
}

// As long as there may be news, nobody is sent away because of the old.
func TestADeadlineBeforeAllIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(late)
		c.told(t, "0s", `"a";r=0;t=1`)
		c.told(t, "5s", `"a";r=5;t=1`)
		time.Sleep(2 * time.Second) // it is on its way, and all is there again at 61s
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, _ := request(ctx, t)
		_, err := c.RoundTrip(r)
		require.NoError(t, err)
		require.Equal(t, seconds(0, 1, 6), c.times())
	})
}

func TestNewsWakeThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(late)
		c.told(t, "0s", `"a";r=0;t=2`)
		c.told(t, "1s", `"a";r=5;t=2`)
		time.Sleep(2500 * time.Millisecond)
		c.told(t, "0s", `"a";r=4;t=2`)
		time.Sleep(2 * time.Minute)
		require.Equal(t, seconds(0, 2, 3), c.times())
	})
}

// Routes without a limit are held back at most once by those that have one.
func TestAnswersWithoutFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fields := []string{"RateLimit", `"a";r=0;t=5`}
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(200, fields...) })
		c.asked(t, 1)
		fields = nil
		require.Equal(t, seconds(0, 5, 5, 5), c.asked(t, 3))
	})
}

// A server that tells its limit when it denies, and then no more, is not held to that for
// ever.
func TestALimitThatIsToldNoMoreIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		c := newTransport(func(*http.Request) (*http.Response, error) {
			if sent.Add(1) == 1 {
				return says(429, "Retry-After", "1", "RateLimit", `"a";r=0;t=1`, "RateLimit-Policy", `"a";q=1000;w=60`)
			}
			time.Sleep(100 * time.Millisecond)
			return says(200)
		})
		c.asked(t, 1)
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		work(ctx, c, 50)
		require.Greater(t, sent.Load(), int64(28_000), "of 30,000 that there is time for")
	})
}

func TestALimitIsBelievedForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fields := []string{"RateLimit", `"a";r=0;t=1`, "RateLimit-Policy", `"a";q=1;w=1`}
		c := newTransport(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return says(200, fields...)
		})
		c.asked(t, 1)
		fields = nil
		time.Sleep(10 * time.Second)
		c.asked(t, 1)
		c.together(t, 3)
		require.Equal(t, seconds(12, 12, 13), c.times()[2:], "no more than are sure to be let in")
	})
}

// Others who spend the same limit cost denials, and no more than a few.
func TestOthersSpendTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := compose.Options[*http.Request]{Clock: time.Now}.New(nil, rule("client", "gcra 60/m burst=10"))
		require.NoError(t, err)
		w := newWire(httplimit.Handler(limiter, hello, httplimit.Options{}), 100*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for range 3 { // each with a Transport of its own
			client := &httplimit.Transport{Base: w}
			all.Go(func() {
				for {
					r, _ := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
					if _, err := client.RoundTrip(r); err != nil {
						return
					}
				}
			})
		}
		all.Wait()
		t.Log(w.seen)
		require.Greater(t, w.seen[http.StatusOK], 500)
		require.Less(t, w.seen[http.StatusTooManyRequests], 3*w.seen[http.StatusOK])
	})
}

func TestManyHostsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(200, "RateLimit", `"a";r=0;t=5`) })
		get(t, c, "http://example.com/")
		for i := range 2000 {
			get(t, c, fmt.Sprintf("http://%d.example.com/", i))
			time.Sleep(time.Second)
		}
		require.Less(t, c.Queues(), 100)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(429, "Retry-After", "3000") })
		get(t, c, "http://example.com/")
		for i := range 2000 {
			get(t, c, fmt.Sprintf("http://%d.example.com/", i))
			time.Sleep(time.Second)
		}
		require.Equal(t, 3000*time.Second, func() time.Duration { get(t, c, "http://example.com/"); return c.sent[2001] }(), "what is stopped is not forgotten")
	})
}

// pipes is a net.Listener whose connections are in memory, where the time is that
// of the test.
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

// The client and the server of net/http, with all that they do to fields.
func TestClientAndServerOfTheStandardLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := compose.Options[*http.Request]{Clock: time.Now}.New(nil, rule("client", "gcra 10/s"), rule("day", "fixedwindow 1000/d"))
		require.NoError(t, err)
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
