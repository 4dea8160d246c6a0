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

func TestRequestsAreSentWhenTheServerAcceptsThem(t *testing.T) {
	errs := map[string]error{
		"dropped": &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET},
		"refused": fmt.Errorf("a proxy says: %w", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}),
	}
	answerOf := func(text string) answer {
		word, rest, _ := strings.Cut(text, " ")
		switch status, err := strconv.Atoi(word); {
		case err == nil && rest == "":
			return always(status)
		case err == nil:
			return always(status, "Retry-After", rest)
		case strings.HasPrefix(word, "r="):
			return always(200, "RateLimit", `"a";`+word)
		case word == "panic":
			return func(*http.Request) (*http.Response, error) { panic("the base") }
		}
		require.Contains(t, errs, word)
		return func(*http.Request) (*http.Response, error) { return nil, errs[word] }
	}
	tracetest.Answers(t, "testdata/sent.txt", func(question string) (sent string) {
		words := strings.Split(question, " | ")
		var answers []answer
		for text := range strings.SplitSeq(words[0], ", ") {
			delay, delayed, _ := strings.Cut(text, " ")
			if d, err := time.ParseDuration(delay); err == nil && d > 0 {
				answers = append(answers, after(d, answerOf(delayed)))
			} else {
				answers = append(answers, answerOf(text))
			}
		}
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, inTurn(answers...))
			for word := range strings.FieldsSeq(words[1]) {
				at, err := time.ParseDuration(word)
				require.NoError(t, err)
				time.Sleep(at - time.Since(c.began))
				c.start(t.Context(), "/")
			}
			c.all.Wait()
			var times []string
			for _, at := range c.times() {
				times = append(times, fmt.Sprint(at.Seconds(), "s"))
			}
			sent = strings.Join(times, " ")
		})
		return sent
	})
}

// Transport forgets servers about which it knows nothing that delays requests, also if their number grows no more.
func TestUnusedServersAreForgotten(t *testing.T) {
	pauses := always(429, "Retry-After", "60")
	for name, test := range map[string]struct {
		server   answer
		interval time.Duration // between requests
		most     int           // servers
	}{
		"quota":       {always(200, "RateLimit", `"a";r=0;t=5`), 6 * time.Minute, 99},
		"pause":       {pauses, 6 * time.Minute, 99},
		"backoff":     {always(503), 6 * time.Minute, 99},
		"no response": {func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 6 * time.Minute, 99},
		"panic":       {func(*http.Request) (*http.Response, error) { panic("the base") }, 6 * time.Minute, 99},
		"flood":       {pauses, 0, 2000},
	} {
		bubble(t, name, func(t *testing.T) {
			c := newClient(t, test.server)
			for i := range 2000 {
				c.start(t.Context(), fmt.Sprintf("http://%d.example.com", i))
				time.Sleep(test.interval)
			}
			require.LessOrEqual(t, c.Servers(), test.most)
			for range 2 {
				time.Sleep(61 * time.Second)
				c.start(t.Context(), "http://0.example.com")
			}
			require.LessOrEqual(t, c.Servers(), 64)
		})
	}
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
