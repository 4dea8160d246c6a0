// These tests promise that a Limiter whose limit is the same for all hosts costs no more if there are
// many hosts, that it allows their requests in the order of arrival, and that a host that accepts no
// requests does not delay the others.
package httplimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
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

// The Limiter decides once about each request when it arrives. Later it decides twice for each allowed
// request: it allows this one and denies the next one.
func TestDecisionsDoNotDependOnTheNumberOfHosts(t *testing.T) {
	for _, hosts := range []int{1, 1000} {
		for name, test := range map[string]struct {
			store storage.Store
			spec  string
			took  time.Duration
		}{
			"one by one":            {nil, "gcra 100/s burst=1", 9990 * time.Millisecond},
			"in bursts":             {nil, "fixedwindow 100/s", 9 * time.Second},
			"slow store":            {slowUpdates{new(memory.Store)}, "gcra 100/s burst=10", 10 * time.Second},
			"slow store, high rate": {slowUpdates{new(memory.Store)}, "gcra 1000/s burst=100", time.Second},
		} {
			t.Run(fmt.Sprint(hosts, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					calls := make(map[sluice.Op]int)
					c := newTransport(unlimited)
					c.Limiter = countingLimiter(t, test.store, calls, rule("own", test.spec))
					var all sync.WaitGroup
					for i := range 1000 {
						all.Go(func() { get(t, c, fmt.Sprintf("http://%d.example.com/", i%hosts)) })
					}
					all.Wait()
					require.LessOrEqual(t, calls[sluice.OpAllow], 3*1000)
					require.LessOrEqual(t, time.Since(c.began), test.took, "at the full rate")
					require.Zero(t, c.Groups())
				})
			})
		}
	}
}

// firstSegment is a Transport.Key for which "/a/1" and "/a/2" are requests to the host a.
func firstSegment(r *http.Request) string { return strings.Split(r.URL.Path, "/")[1] }

func TestPausedHostDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(map[sluice.Op]int)
		l := newRecorder(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != "/paused/0" {
				return newResponse(200)
			}
			time.Sleep(500 * time.Millisecond)
			return newResponse(503, "Retry-After", "3")
		})
		l.Key = firstSegment
		l.Limiter = countingLimiter(t, nil, calls, rule("own", "gcra 1/s burst=1"))
		for _, path := range []string{"/paused/0", "/paused/1", "/paused/2", "/paused/3", "/a/1", "/b/1", "/a/2", "/b/2", "/c/1"} {
			l.start(t.Context(), path)
		}
		l.all.Wait()
		require.Equal(t, []string{"/paused/0", "/a/1", "/b/1", "/a/2", "/paused/1", "/paused/2", "/paused/3", "/b/2", "/c/1"}, l.paths)
		require.Equal(t, seconds(0, 1, 2, 3, 4, 5, 6, 7, 8), l.times(), "one request a second")
		require.Equal(t, map[sluice.Op]int{sluice.OpAllow: 9 + 8 + 7}, calls)
	})
}

// RetryAfter ends while the server of a denied request pauses. After the pause, the request has to wait
// for the Limiter, but a request behind it that the Limiter allows does not wait.
func TestDeniedRequestOfAPausedServerLetsOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRecorder(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/a/pause" {
				return newResponse(503, "Retry-After", "5")
			}
			return newResponse(200)
		})
		l.Key = firstSegment
		l.Limiter = newLimiter(t, limiterOptions{Clock: time.Now}, nil, uploads("gcra 1/10s burst=1"))
		for _, path := range []string{"/a/up/1", "/a/up/2", "/b/up/1", "/c/up/1"} {
			l.start(t.Context(), path)
		}
		time.Sleep(9 * time.Second)
		l.start(t.Context(), "/a/pause")
		time.Sleep(2 * time.Second)
		l.start(t.Context(), "/a/free")
		l.all.Wait()
		require.Equal(t, []string{"/a/up/1", "/a/pause", "/b/up/1", "/a/free", "/a/up/2", "/c/up/1"}, l.paths)
		require.Equal(t, seconds(0, 9, 10, 14, 20, 30), l.times())
	})
}

// A refund shortens the wait. All requests wait as long as the latest denial says.
func TestShorterDenialIsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRecorder(t, unlimited)
		l.Key = firstSegment
		l.Limiter = limiterOf(t, nil, "gcra 1/10s burst=10")
		spend, _ := request(t.Context(), t)
		_, err := l.Limiter.Charge(t.Context(), spend, 15)
		require.NoError(t, err)
		l.start(t.Context(), "/a/1") // is denied for 60 s
		_, err = l.Limiter.Refund(t.Context(), spend, 3)
		require.NoError(t, err)
		l.start(t.Context(), "/b/1") // is denied for 30 s
		l.all.Wait()
		require.Equal(t, []string{"/a/1", "/b/1"}, l.paths)
		require.Equal(t, seconds(30, 40), l.times())
	})
}

// The request that the Limiter decides about again ends. The next one, to another host, gets the slot
// at once.
func TestSlotOfADeniedRequestIsPassedOnForAnyReason(t *testing.T) {
	for name, ends := range map[string]func(cancel func()) int64{ // when the Limiter decides again; it returns the cost
		"canceled while it waits":  nil,
		"canceled during the call": func(cancel func()) int64 { cancel(); return 0 },
		"panic":                    func(func()) int64 { panic("cost") },
		"error":                    func(func()) int64 { return -1 },
		"another denial":           func(func()) int64 { return 2 },
		"never allowed":            func(func()) int64 { return 4 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				own, asked := rule("own", "gcra 1/10s burst=3"), 0
				own.Cost = func(r *http.Request) int64 {
					switch {
					case r.URL.Path == "/first":
						return 3
					case r.URL.Path != "/a/1":
						return 1
					}
					if asked++; asked == 1 {
						return 1
					}
					return ends(cancel)
				}
				l := newRecorder(t, unlimited)
				l.Key = firstSegment
				l.Limiter = newLimiter(t, limiterOptions{Clock: time.Now}, nil, own)
				l.start(t.Context(), "/first")
				l.start(ctx, "/a/1")
				l.start(t.Context(), "/b/1")
				time.Sleep(9 * time.Second)
				if ends == nil {
					cancel()
				}
				time.Sleep(2 * time.Second)
				require.Equal(t, seconds(0, 10), l.times())
				l.all.Wait()
				require.Zero(t, l.Pending())
				require.Zero(t, l.Groups())
			})
		})
	}
}

// Random traffic by several Transports that share a Limiter, with random delays, denials,
// cancellations and panics.
func TestEveryRequestEnds(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { randomHosts(t, rand.New(rand.NewPCG(seed, 2))) })
	}
}

func randomHosts(t *testing.T, random *rand.Rand) {
	var mu sync.Mutex
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	hosts, costs, pauses, panics := 1+draw(2)*draw(30), 1+draw(3), draw(2), draw(2)
	spec := []string{"gcra 20/s burst=3", "gcra 50/s", "tokenbucket 20/s burst=5", "fixedwindow 10/s"}[draw(4)]
	var store storage.Store
	if draw(2) == 0 {
		store = slowUpdates{new(memory.Store)}
	}
	own := rule("own", spec)
	costOf := func(r *http.Request) int64 {
		cost, err := strconv.ParseInt(r.URL.Path[1:], 10, 64)
		require.NoError(t, err)
		return cost
	}
	own.Cost = func(r *http.Request) int64 {
		if panics*draw(50) == 1 {
			panic("cost")
		}
		return costOf(r)
	}
	calls := make(map[sluice.Op]int)
	limiter := countingLimiter(t, store, calls, own)
	var paid []int64 // of the requests that were sent
	c := newTransport(nil)
	c.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		c.sent, paid = append(c.sent, time.Since(c.began)), append(paid, costOf(r))
		c.mu.Unlock()
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
	clients := make([]*httplimit.Transport, 1+draw(3))
	for i := range clients {
		clients[i] = &httplimit.Transport{Base: c.Base, Limiter: limiter}
	}
	const requests = 300
	var all sync.WaitGroup
	for range requests {
		client, url := clients[draw(len(clients))], fmt.Sprintf("http://%d.example.com/%d", draw(hosts), 1+draw(costs))
		ending, lifetime := draw(6), time.Duration(draw(10_000))*time.Millisecond
		all.Go(func() {
			defer func() { require.Contains(t, []any{nil, "cost", "base"}, recover()) }()
			ctx, cancel := context.WithCancel(t.Context())
			switch ending {
			case 0:
				time.AfterFunc(lifetime, cancel)
			case 1:
				ctx, cancel = context.WithTimeout(ctx, lifetime)
			}
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
			require.NoError(t, err)
			if _, err := client.RoundTrip(r); err != nil {
				require.Less(t, ending, 2, "%v", err)
			}
		})
		time.Sleep(time.Duration(draw(20)) * time.Millisecond)
	}
	all.Wait()
	for _, client := range clients {
		require.Zero(t, client.Pending())
		require.Zero(t, client.Groups())
	}
	require.Less(t, time.Since(c.began), time.Hour)
	require.LessOrEqual(t, calls[sluice.OpAllow], 3*requests*len(clients)*costs)
	requireWithin(t, sluice.MustPolicy(spec), c.sent, paid)
}

// requireWithin checks that no interval has more than the policy's bound.
func requireWithin(t *testing.T, policy sluice.Policy, sent []time.Duration, costs []int64) {
	t.Helper()
	for i := range sent {
		sum := int64(0)
		for j := i; j < len(sent); j++ {
			sum += costs[j]
			if bound := policy.Bound(sent[j] - sent[i] + time.Millisecond); sum > bound {
				require.LessOrEqual(t, sum, bound, "from %s to %s", sent[i], sent[j])
			}
		}
	}
}

func BenchmarkTransport(b *testing.B) {
	answer := roundTripper(unlimited)
	for name, spec := range map[string]string{"no limiter": "", "always allowed": "gcra 1000000000/s"} {
		client := &httplimit.Transport{Base: answer}
		if spec != "" {
			client.Limiter = newLimiter(b, limiterOptions{}, nil, rule("own", spec))
		}
		r, err := http.NewRequest("GET", "http://example.com/", nil)
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = client.RoundTrip(r)
			}
		})
	}
}

// A rule can have a different key for each request. Each denied request then waits in a queue of its
// own. The time of a request that is not denied must not depend on their number.
func BenchmarkTransportWithDeniedRequests(b *testing.B) {
	for _, denied := range []int{10, 10_000} {
		b.Run(fmt.Sprint(denied), func(b *testing.B) {
			own := uploads("gcra 1/24h")
			own.Key = func(r *http.Request) string { return r.URL.Path }
			answer := roundTripper(unlimited)
			client := &httplimit.Transport{Base: answer, Limiter: newLimiter(b, limiterOptions{}, nil, own)}
			ctx, cancel := context.WithCancel(b.Context())
			var all sync.WaitGroup
			for i := range 2 * denied { // the first half is allowed
				r, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://example.com/up/%d", i%denied), nil)
				require.NoError(b, err)
				if i < denied {
					_, _ = client.RoundTrip(r)
				} else {
					all.Go(func() { _, _ = client.RoundTrip(r) })
				}
			}
			for client.Groups() < denied {
				time.Sleep(time.Millisecond)
			}
			r, err := http.NewRequest("GET", "http://example.com/", nil)
			require.NoError(b, err)
			for b.Loop() {
				_, _ = client.RoundTrip(r)
			}
			cancel()
			all.Wait()
		})
	}
}
