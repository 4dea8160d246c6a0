// These tests promise how long Transport pauses after a 429 or 503, and how it resumes.
package httplimit_test

import (
	"context"
	"errors"
	"math/bits"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
)

func TestPauseFollowsTheResponse(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		fields []string
		want   []time.Duration // when three requests are sent, one after the other
	}{
		"429":                     {429, []string{"Retry-After", "7"}, seconds(0, 7, 14)},
		"503":                     {503, []string{"Retry-After", "7"}, seconds(0, 7, 14)},
		"another status":          {301, []string{"Retry-After", "7"}, seconds(0, 0, 0)},
		"longer than t":           {429, []string{"Retry-After", "7", "RateLimit", `"a";r=0;t=2`}, seconds(0, 7, 14)},
		"0":                       {429, []string{"Retry-After", "0"}, seconds(0, 1, 3)},
		"0 of a 503":              {503, []string{"Retry-After", "0"}, seconds(0, 1, 3)},
		"many zeros":              {429, []string{"Retry-After", "000"}, seconds(0, 1, 3)},
		"0 with t":                {429, []string{"Retry-After", "0", "RateLimit", `"a";r=0;t=7`}, seconds(0, 7, 14)},
		"0 with t of 0":           {429, []string{"Retry-After", "0", "RateLimit", `"a";r=5;t=0`}, seconds(0, 1, 3)},
		"0, and requests remain":  {503, []string{"Retry-After", "0", "RateLimit", `"a";r=5`}, seconds(0, 1, 3)},
		"longer than an hour":     {429, []string{"Retry-After", "999999999999999999"}, seconds(0, 3600, 7200)},
		"t longer than an hour":   {429, []string{"Retry-After", "9000", "RateLimit", `"a";r=0;t=9000`}, seconds(0, 3600, 7200)},
		"longer than an int64":    {429, []string{"Retry-After", "99999999999999999999"}, seconds(0, 3600, 7200)},
		"no field":                {429, nil, seconds(0, 1, 3)},
		"t without Retry-After":   {429, []string{"RateLimit", `"a";r=4;t=7`}, seconds(0, 7, 14)},
		"r without t":             {429, []string{"RateLimit", `"a";r=0`}, seconds(0, 1, 3)},
		"t of 0":                  {503, []string{"RateLimit", `"a";r=0;t=0`}, seconds(0, 1, 3)},
		"negative t":              {429, []string{"RateLimit", `"a";r=0;t=-3`}, seconds(0, 1, 3)},
		"fractional t":            {429, []string{"RateLimit", `"a";r=0;t=0.5`}, seconds(0, 1, 3)},
		"negative":                {503, []string{"Retry-After", "-1"}, seconds(0, 1, 3)},
		"below an int64":          {429, []string{"Retry-After", "-99999999999999999999"}, seconds(0, 1, 3)},
		"a fraction":              {429, []string{"Retry-After", "0.5"}, seconds(0, 1, 3)},
		"empty":                   {429, []string{"Retry-After", ""}, seconds(0, 1, 3)},
		"not a number":            {503, []string{"Retry-After", "soon"}, seconds(0, 1, 3)},
		"a date":                  {429, []string{"Retry-After", "Sat, 01 Jan 2000 00:00:09 GMT"}, seconds(0, 9, 10)}, // synctest starts at 2000-01-01; the second response has a date that is not in the future
		"a date of another clock": {429, []string{"Retry-After", "Thu, 01 Jan 2026 12:00:05 GMT", "Date", "Thu, 01 Jan 2026 12:00:00 GMT"}, seconds(0, 5, 10)},
		"a date in the past":      {429, []string{"Retry-After", "Thu, 01 Jan 1970 12:00:05 GMT"}, seconds(0, 1, 3)},
		"its own date":            {429, []string{"Retry-After", "Thu, 01 Jan 2026 12:00:00 GMT", "Date", "Thu, 01 Jan 2026 12:00:00 GMT"}, seconds(0, 1, 3)},
		"a date before its own":   {503, []string{"Retry-After", "Thu, 01 Jan 2026 11:00:00 GMT", "Date", "Thu, 01 Jan 2026 12:00:00 GMT"}, seconds(0, 1, 3)},
		"success":                 {200, []string{"RateLimit", `"a";r=0;t=3`}, seconds(0, 3, 6)},
		"several limits":          {200, []string{"RateLimit", `"a";r=5;t=9, "b";r=0;t=3`, "RateLimit", `"c";r=0;t=4`}, seconds(0, 4, 8)},
		"success without t":       {200, []string{"RateLimit", `"a";r=0`}, seconds(0, 1, 2)},
		"malformed":               {200, []string{"RateLimit", `"a";r=0;t=3,`}, seconds(0, 0, 0)},
		"an older draft":          {200, []string{"RateLimit", `limit=10, remaining=0, reset=50`}, seconds(0, 0, 0)},
		"negative r":              {200, []string{"RateLimit", `"a";r=-1;t=3`}, seconds(0, 0, 0)},
		"bytes remain":            {200, []string{"RateLimit", `"a";r=1;t=3`, "RateLimit-Policy", `"a";q=5;qu="content-bytes"`}, seconds(0, 0, 0)},
		"no bytes remain":         {200, []string{"RateLimit", `"a";r=0;t=3`, "RateLimit-Policy", `"a";q=5;qu="content-bytes"`}, seconds(0, 3, 6)},
		"a limit of concurrency":  {200, []string{"RateLimit", `"a";r=0;t=3`, "RateLimit-Policy", `"a";q=5;qu="concurrent-requests"`}, seconds(0, 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTransport(func(*http.Request) (*http.Response, error) { return newResponse(test.status, test.fields...) })
				require.Equal(t, test.want, c.sequential(t, 3))
			})
		})
	}
}

// The last item of a very long field counts.
func TestLongFieldsAreReadToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, policies := strings.Repeat(`"a";r=1,`, 3_000)+`"z";r=0;t=3`, strings.Repeat(`"b",`, 6_000)+`"z";qu="content-bytes"`
		c := newTransport(func(*http.Request) (*http.Response, error) {
			return newResponse(200, "RateLimit", limits, "RateLimit-Policy", policies)
		})
		require.Equal(t, seconds(0, 3), c.sequential(t, 2))
	})
}

// A client that goes on calling, or that retries, sends few requests to a server that always names no
// pause.
func TestServerThatNamesNoPauseGetsFewRequests(t *testing.T) {
	for _, fields := range [][]string{
		{"Retry-After", "0"},
		{"Retry-After", "Thu, 01 Jan 1970 00:00:00 GMT"},
		{"Retry-After", "-1"},
		{"RateLimit", `"a";r=9;t=0`},
	} {
		for _, status := range []int{429, 503} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				var sent atomic.Int64
				c := newTransport(func(*http.Request) (*http.Response, error) {
					if sent.Add(1) > 1000 {
						cancel() // else a client without a pause would never end, because no time passes
					}
					return newResponse(status, fields...)
				})
				c.MaxRetries = 3
				work(ctx, c, 100)
				// 100 at first, one after each pause of 1, 2, 4 s and so on, and one after each hour.
				require.LessOrEqual(t, sent.Load(), int64(115), "%d %v", status, fields)
			})
		}
	}
}

func TestSuccessEndsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		statuses := []int{429, 429, 429, 200, 429, 200}
		c := newTransport(func(*http.Request) (*http.Response, error) {
			status := statuses[0]
			statuses = statuses[1:]
			return newResponse(status)
		})
		tenth := 100 * time.Millisecond // after the first that is let in
		require.Equal(t, append(seconds(0, 1, 3, 7), 7*time.Second+tenth, 8*time.Second+tenth), c.sequential(t, 6))
	})
}

func TestLongerPauseWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(r *http.Request) (*http.Response, error) {
			if r.Method == "PUT" {
				time.Sleep(time.Second)
				return newResponse(503, "Retry-After", "2")
			}
			return newResponse(429, "Retry-After", "60")
		})
		go func() {
			r, _ := request(t.Context(), t)
			_, _ = c.RoundTrip(r)
		}()
		synctest.Wait()
		require.Equal(t, seconds(0, 0, 60), c.sequential(t, 2))
	})
}

func TestConcurrentDenialsCountOnceForTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return newResponse(503)
		})
		c.concurrent(t, 20)
		require.Equal(t, seconds(2, 5), c.sequential(t, 2)[20:], "1 s after the responses at 1 s, and 2 s after the response at 3 s")
	})
}

// The responses of requests that were in flight together can arrive one by one, after others
// succeeded.
func TestLateDenialDoesNotExtendTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan time.Duration, 3)
		for _, after := range []time.Duration{1, 3, 10} {
			answers <- after * time.Second
		}
		c := newTransport(func(*http.Request) (*http.Response, error) {
			select {
			case after := <-answers:
				time.Sleep(after)
				return newResponse(429)
			default:
				return newResponse(200)
			}
		})
		c.concurrent(t, 3)
		require.Equal(t, []time.Duration{11 * time.Second, 11100 * time.Millisecond}, c.sequential(t, 2)[3:])
	})
}

// A server that denies some of the requests, without a time, is probed every second.
func TestBackoffStaysShortIfSomeSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := limiterOf(t, nil, "gcra 5/s burst=5")
		c := newTransport(func(r *http.Request) (*http.Response, error) {
			time.Sleep(20 * time.Millisecond)
			if d, err := limiter.Allow(r.Context(), r); err != nil || !d.Allowed {
				return newResponse(429)
			}
			return newResponse(200)
		})
		for range 4 {
			c.concurrent(t, 15)
		}
		times := c.times()
		for i := 1; i < len(times); i++ {
			require.LessOrEqual(t, times[i]-times[i-1], time.Second+20*time.Millisecond, "%v", times)
		}
	})
}

// A response to a request that was sent before the denials does not show that they are over.
func TestEarlierSuccessDoesNotEndTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut {
				time.Sleep(5 * time.Second)
				return newResponse(200)
			}
			return newResponse(503)
		})
		go func() {
			r, _ := request(t.Context(), t)
			_, _ = c.RoundTrip(r)
		}()
		synctest.Wait()
		require.Equal(t, seconds(0, 0, 1, 3, 7, 15), c.sequential(t, 5))
	})
}

// newPausing returns a Transport for a server that answers 503 with these fields first, and
// then calls the function.
func newPausing(then func() (*http.Response, error), fields ...string) *transport {
	var sent atomic.Int64
	return newTransport(func(*http.Request) (*http.Response, error) {
		if sent.Add(1) == 1 {
			return newResponse(503, fields...)
		}
		return then()
	})
}

func succeed() (*http.Response, error) { return newResponse(200) }

// The ramp does not depend on the responses to the requests that are sent in it.
func TestRampAfterAPause(t *testing.T) {
	ms := time.Millisecond
	for name, answer := range map[string]func() (*http.Response, error){
		"and is let in": succeed,
		"and hangs":     func() (*http.Response, error) { time.Sleep(time.Hour); return newResponse(200) },
		"and fails":     func() (*http.Response, error) { return nil, errors.New("reset") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newPausing(answer, "Retry-After", "10")
				c.sequential(t, 1)
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

func TestRampWithinAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		c := newTransport(func(*http.Request) (*http.Response, error) {
			switch sent.Add(1) {
			case 1:
				return newResponse(200, "RateLimit", `"a";r=2000;t=1`, "RateLimit-Policy", `"a";q=2000;w=60`)
			case 2:
				return newResponse(503, "Retry-After", "10")
			}
			return newResponse(200)
		})
		c.sequential(t, 2)
		c.concurrent(t, 1000)
		at := make(map[time.Duration]int)
		for _, when := range c.times()[2:] {
			at[when]++
		}
		require.Equal(t, 1, at[10*time.Second])
		require.Equal(t, 256, at[10*time.Second+900*time.Millisecond])
		require.Equal(t, 488, at[11*time.Second])
	})
}

func TestRampEndsAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPausing(succeed, "Retry-After", "10")
		c.sequential(t, 1)
		time.Sleep(11 * time.Second)
		c.concurrent(t, 50)
		require.Equal(t, slices.Repeat(seconds(11), 50), c.times()[1:])
	})
}

// Requests that have a slot while the Limiter decides count as sent.
func TestRampBoundsDecisionsOfTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPausing(succeed, "Retry-After", "10")
		c.sequential(t, 1)
		calls := make(map[sluice.Op]int)
		c.Limiter = countingLimiter(t, slow(), calls, rule("own", "fixedwindow 1000/h"))
		c.concurrent(t, 9)
		require.Equal(t, map[sluice.Op]int{sluice.OpAllow: 9}, calls)
		for i, when := range c.times()[1:] {
			require.GreaterOrEqual(t, when, 10*time.Second+time.Duration(bits.Len(uint(i)))*100*time.Millisecond)
		}
	})
}
