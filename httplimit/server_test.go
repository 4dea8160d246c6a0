// These tests promise that Transport keeps within the limits that servers report, uses nearly all of them,
// pauses when a server asks for it, and forgets what no longer matters.
package httplimit_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// After the first response of our Handler, no request is denied, whatever the algorithm, the number of
// concurrent requests and the delays, if responses arrive within a second. Without delays the client gets
// at least 90% of the limit.
func TestNeverDeniedInSteadyState(t *testing.T) {
	for _, spec := range []string{
		"gcra 5/s", "gcra 100/m burst=20", "gcra 10/m", "tokenbucket 10/s burst=50 refill=interval", "tokenbucket 6/m burst=2", "gcra 1/5s",
		"fixedwindow 20/10s", "fixedwindow 5/s align=clock", "fixedwindow 60/m align=clock", "movingwindow 20/10s slots=10", "movingwindow 20/10s slots=10 trailing=whole",
		"all(gcra 5/s; gcra 100/m)",
	} {
		for _, workers := range []int{1, 20} {
			for _, slowest := range []time.Duration{0, 10 * time.Millisecond, 500 * time.Millisecond} {
				bubble(t, fmt.Sprint(spec, " by ", workers, " over ", slowest), func(t *testing.T) {
					c := newClient(t, limitedServer(t, spec, slowest))
					c.get("/") // the first response reports the limit
					c.work(time.Minute, workers)
					require.Zero(t, c.counts[http.StatusTooManyRequests])
					if slowest <= 10*time.Millisecond { // longer ways limit by themselves
						policy := sluice.MustPolicy(spec)
						full, err := policy.Peek(nil, still(), 1)
						require.NoError(t, err)
						require.GreaterOrEqual(t, float64(c.counts[http.StatusOK]), 0.9*float64(policy.Bound(time.Minute)-full.Limit))
					}
				})
			}
		}
	}
}

// scenario is a sequence of requests.
type scenario struct {
	answers []answer        // of the server, one after the other; the last one repeats
	start   []time.Duration // of the requests
	sent    []time.Duration // the same if none waits
}

func (s scenario) run(t *testing.T, name string) {
	bubble(t, name, func(t *testing.T) {
		c := newClient(t, inTurn(s.answers...))
		for _, at := range s.start {
			time.Sleep(at - time.Since(c.began))
			c.start(t.Context(), "/")
		}
		c.all.Wait()
		require.Equal(t, s.sent, c.times())
	})
}

func TestWaitFollowsTheResponse(t *testing.T) {
	tracetest.Answers(t, "testdata/waits.txt", func(question string) (times string) {
		words := strings.Split(question, " | ")
		status, err := strconv.Atoi(words[0])
		require.NoError(t, err)
		var fields []string
		for _, field := range words[1:] {
			fields = append(fields, strings.SplitN(field, ": ", 2)...)
		}
		synctest.Test(t, func(t *testing.T) { times = fmt.Sprint(newClient(t, always(status, fields...)).sequential(3)) })
		return times
	})
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
			c := newClient(t, always(429, "Retry-After", "5"))
			c.Key = test.key
			for _, url := range test.urls {
				c.get(url)
			}
			require.Equal(t, test.sent, c.times())
		})
	}
}

// A server that names no pause, or none that lasts, gets few requests.
func TestBackoff(t *testing.T) {
	denial, success := always(429, "Retry-After", "0"), always(200)
	late := func(s float64, next answer) answer { return after(seconds(s)[0], next) }
	six, two := seconds(0, 0, 0, 0, 0, 0), seconds(0, 0, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5)
	for name, test := range map[string]scenario{
		"doubles":                        {[]answer{denial}, six, seconds(0, 1, 3, 7, 15, 31)},
		"ends with a success":            {[]answer{denial, denial, denial, success, denial, success}, six, seconds(0, 1, 3, 7, 7.1, 8.1)},
		"counts concurrent denials once": {[]answer{late(1, denial), late(1, denial), denial}, two, seconds(0, 0, 2, 4, 8, 16, 32, 64)},
		"ignores earlier denials":        {[]answer{late(1, denial), late(3, denial), denial, denial, success}, two, seconds(0, 0, 2, 5, 9, 9.1, 9.2, 9.2)},
		"ignores earlier successes":      {[]answer{late(1, denial), late(5, success), denial}, two, seconds(0, 0, 2, 4, 8, 16, 32, 64)},
		"is not a longer pause":          {[]answer{late(1, always(429, "Retry-After", "60")), late(2, denial), success}, two, seconds(0, 0, 61, 61.1, 61.2, 61.2, 61.3, 61.3)},
	} {
		test.run(t, name)
	}
}

// The number of requests after a pause does not depend on their responses.
func TestRampAfterAPause(t *testing.T) {
	for name, others := range map[string]answer{
		"succeed": always(200), "hang": after(time.Hour, always(200)), "fail": func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
	} {
		bubble(t, name, func(t *testing.T) {
			c := newClient(t, inTurn(always(503, "Retry-After", "10"), others))
			c.sequential(1)
			for range 2000 {
				c.all.Go(func() { _, _ = c.RoundTrip(c.request(t.Context(), "/")) })
			}
			time.Sleep(12 * time.Second)
			at := make(map[float64]int)
			for _, when := range c.times()[1:] {
				at[when.Seconds()]++
			}
			require.Equal(t, map[float64]int{10: 1, 10.1: 1, 10.2: 2, 10.3: 4, 10.4: 8, 10.5: 16, 10.6: 32, 10.7: 64, 10.8: 128, 10.9: 256, 11: 1488}, at)
			c.all.Wait()
		})
	}
}

func TestQuota(t *testing.T) {
	quota := func(delay, remaining, refill int) answer {
		return after(time.Duration(delay)*time.Second, always(200, "RateLimit", fmt.Sprintf(`"a";r=%d;t=%d`, remaining, refill)))
	}
	fails := func(delay int, err error) answer {
		return after(time.Duration(delay)*time.Second, func(*http.Request) (*http.Response, error) { return nil, err })
	}
	dropped := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	refused := fmt.Errorf("a proxy says: %w", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
	for name, test := range map[string]scenario{
		"others have used some of it":                           {[]answer{quota(0, 5, 10), quota(0, 1, 10), quota(0, 0, 10), quota(0, 0, 10)}, seconds(0, 0, 0, 0), seconds(0, 0, 0, 10)},
		"requests in flight may not be counted yet":             {[]answer{quota(0, 2, 10), quota(20, 0, 10), quota(1, 1, 10), quota(0, 0, 10)}, seconds(0, 0, 0, 2), seconds(0, 0, 0, 11)},
		"a response that was overtaken is outdated":             {[]answer{quota(2, 1, 1), quota(1, 0, 10), quota(0, 0, 10)}, seconds(0, 0, 3), seconds(0, 0, 11)},
		"an earlier refill counts if nothing else is in flight": {[]answer{quota(0, 0, 100), quota(0, 0, 5), quota(0, 0, 5)}, seconds(0, 0, 0), seconds(0, 100, 105)},
		"requests without a limit add nothing to a later one":   {[]answer{fails(1, refused), fails(1, refused), fails(1, refused), quota(1, 1, 10), quota(20, 0, 10), quota(0, 0, 10)}, seconds(0, 0, 0, 2, 2, 4), seconds(0, 0, 0, 2, 2, 13)},
		"a response that reports more wakes requests":           {[]answer{quota(0, 0, 2), quota(1, 5, 9), quota(0, 4, 9)}, seconds(0, 2, 2.5), seconds(0, 2, 3)},
		"without a response the next refill counts":             {[]answer{quota(0, 0, 2), quota(60, 0, 2)}, seconds(0, 2, 2, 2), seconds(0, 2, 4, 6)},
		"without a response it is asked every minute":           {[]answer{quota(0, 0, 1000), fails(1, dropped), quota(0, 0, 1000)}, seconds(0, 0, 0), seconds(0, 1000, 1060)},
		"a request without a response counts as sent":           {[]answer{quota(0, 1, 100), fails(1, dropped), quota(0, 0, 100)}, seconds(0, 0, 2), seconds(0, 0, 100)},
		"a request that cannot connect does not":                {[]answer{quota(0, 1, 100), fails(1, refused), quota(0, 0, 100)}, seconds(0, 0, 2), seconds(0, 0, 2)},
		"a refill is not used by it either":                     {[]answer{quota(0, 0, 36), fails(0, refused), fails(0, refused), quota(0, 0, 36)}, seconds(0, 36, 36, 36, 37), seconds(0, 36, 36, 36, 72)},
		"a response without the limit does not add to it":       {[]answer{quota(0, 1, 100), always(200), quota(0, 0, 100)}, seconds(0, 0, 1), seconds(0, 0, 100)},
		"after the refill, a response without it forgets":       {[]answer{quota(0, 0, 5), always(200)}, seconds(0, 0, 0, 0, 0), seconds(0, 5, 5, 5, 5)},
		"a limit that is reported again holds again":            {[]answer{quota(0, 0, 5), always(200), quota(0, 0, 5)}, seconds(0, 0, 0, 0), seconds(0, 5, 5, 10)},
		"a panic counts as no response":                         {[]answer{quota(0, 1, 100), func(*http.Request) (*http.Response, error) { panic("the base") }, quota(0, 0, 9)}, seconds(0, 1, 2), seconds(0, 1, 100)},
	} {
		test.run(t, name)
	}
}

// Transport forgets servers about which it knows nothing that delays requests.
func TestUnusedServersAreForgotten(t *testing.T) {
	for _, server := range []answer{
		always(200, "RateLimit", `"a";r=0;t=5`), always(429, "Retry-After", "60"), always(503),
		func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		func(*http.Request) (*http.Response, error) { panic("the base") },
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, server)
			for i := range 2000 {
				c.start(t.Context(), fmt.Sprintf("http://%d.example.com", i))
				time.Sleep(6 * time.Minute)
			}
			require.Less(t, c.Servers(), 100)
		})
	}
}

// They all pause at the same time, and their number grows no more.
func TestServersAreForgottenAfterAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, always(429, "Retry-After", "60"))
		for i := range 2000 {
			c.start(t.Context(), fmt.Sprintf("http://%d.example.com", i))
		}
		for range 2 {
			time.Sleep(61 * time.Second)
			c.start(t.Context(), "http://0.example.com")
		}
		require.LessOrEqual(t, c.Servers(), 64)
	})
}

func TestServersInUseAreRemembered(t *testing.T) {
	for name, test := range map[string]struct {
		server answer // of the first host
		sent   []time.Duration
	}{
		"pause":     {always(429, "Retry-After", "3000"), seconds(0, 3000, 6000)},
		"quota":     {always(200, "RateLimit", `"a";r=0;t=3000`), seconds(0, 3000, 6000)},
		"in flight": {inTurn(after(2500*time.Second, always(200, "RateLimit", `"a";r=0;t=700`)), always(200, "RateLimit", `"a";r=0;t=1000`)), seconds(0, 2000, 3200)},
	} {
		bubble(t, name, func(t *testing.T) {
			c := newClient(t, func(r *http.Request) (*http.Response, error) {
				if r.URL.Host != "example.com" {
					return newResponse(200)
				}
				return test.server(r)
			})
			c.start(t.Context(), "/")
			for i := range 2000 {
				c.get(fmt.Sprintf("http://%d.example.com/", i))
				time.Sleep(time.Second)
			}
			times := c.sequential(2)
			c.all.Wait()
			require.Equal(t, test.sent, append(times[:1:1], times[2001:]...))
		})
	}
}
