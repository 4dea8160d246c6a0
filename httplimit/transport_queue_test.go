// These tests promise the order in which requests are sent, that no request waits in vain,
// and that each ends.
package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

func TestLimiterDecidesOnlyWhatTheServerAccepts(t *testing.T) {
	for _, status := range []int{200, 503} {
		for _, store := range []storage.Store{new(memory.Store), slow()} {
			synctest.Test(t, func(t *testing.T) {
				calls := make(map[sluice.Op]int)
				c := newTransport(func(*http.Request) (*http.Response, error) {
					return newResponse(status, "Retry-After", "1", "RateLimit", `"a";r=0;t=1`)
				})
				c.Limiter = countingLimiter(t, store, calls, rule(http.StatusText(status), "gcra 1000/s"))
				c.sequential(t, 1)
				c.concurrent(t, 30)
				require.Equal(t, map[sluice.Op]int{sluice.OpAllow: 31}, calls)
			})
		}
	}
}

func TestDecisionsOfTheLimiterShareRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) {
			return newResponse(200, "RateLimit", `"a";r=10;t=60`)
		})
		c.sequential(t, 1)
		c.Limiter = limiterOf(t, slowUpdates{new(memory.Store)}, "gcra 1000/s")
		c.concurrent(t, 10)
		require.LessOrEqual(t, c.times()[10], 20*time.Millisecond)
	})
}

func TestRequestsAreSentInOrderOfArrival(t *testing.T) {
	for name, test := range map[string]struct {
		answer  func(*http.Request) (*http.Response, error)
		limiter *sluice.Limiter[*http.Request]
		hosts   int
		every   time.Duration // so that some arrive when the server accepts them
	}{
		"no limiter":             {onePerSecond, nil, 1, 70 * time.Millisecond},
		"slow store":             {onePerSecond, limiterOf(t, slow(), "gcra 1000/s"), 1, 70 * time.Millisecond},
		"denied":                 {onePerSecond, limiterOf(t, nil, "gcra 1/2s"), 1, 10 * time.Millisecond},
		"denied, to seven hosts": {unlimited, limiterOf(t, nil, "gcra 10/s burst=1"), 7, 33 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newRecorder(t, test.answer)
				l.Key, l.Limiter = firstSegment, test.limiter
				var want []string
				for i := range 60 {
					want = append(want, fmt.Sprintf("/%d/%d", i*i%test.hosts, i))
					l.start(t.Context(), want[i])
					time.Sleep(test.every)
				}
				l.all.Wait()
				require.Equal(t, want, l.paths)
			})
		})
	}
}

func TestCheaperRequestsDoNotWaitForDeniedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRecorder(t, unlimited)
		own := rule("own", "gcra 1/s burst=10")
		own.Cost = func(r *http.Request) int64 { return int64(len(r.URL.Path)) }
		l.Limiter = newLimiter(t, limiterOptions{Clock: time.Now}, nil, own)
		l.start(t.Context(), "/ten bytes")
		l.start(t.Context(), "/nine byt") // for which it takes 9 s
		l.start(t.Context(), "/a")        // for which it takes 2 s
		l.start(t.Context(), "/b")
		l.all.Wait()
		require.Equal(t, []string{"/ten bytes", "/a", "/b", "/nine byt"}, l.paths)
		require.Equal(t, seconds(0, 2, 4, 13), l.times())
	})
}

func TestOtherKeysDoNotWaitForDeniedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRecorder(t, unlimited)
		own := rule("own", "gcra 1/10s")
		own.Key = func(r *http.Request) string { return r.URL.Path }
		l.Limiter = newLimiter(t, limiterOptions{Clock: time.Now}, nil, own)
		for _, path := range []string{"/a", "/b"} {
			l.start(t.Context(), path)
			l.start(t.Context(), path)
			time.Sleep(5 * time.Second)
		}
		l.all.Wait()
		require.Equal(t, seconds(0, 5, 10, 15), l.times())
	})
}

// A request that the Limiter denied goes first when the Limiter can allow it.
func TestDeniedRequestLetsOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRecorder(t, onePerSecond)
		own := uploads("gcra 2/11s burst=1")
		calls := make(map[sluice.Op]int)
		l.Limiter = countingLimiter(t, nil, calls, own)
		for _, path := range []string{"/up", "/up/2", "/1", "/2", "/3", "/4", "/5", "/6", "/7"} {
			l.start(t.Context(), path)
		}
		l.all.Wait()
		require.Equal(t, []string{"/up", "/1", "/2", "/3", "/4", "/5", "/up/2", "/6", "/7"}, l.paths)
		require.Equal(t, seconds(0, 1, 2, 3, 4, 5, 6, 7, 8), l.times(), "a request is sent each second")
		require.Equal(t, map[sluice.Op]int{sluice.OpAllow: 10}, calls, "once for each request, and once more for the denied one")
	})
}

func TestCancelledRequestDelaysNobody(t *testing.T) {
	for _, gone := range []string{"/1", "/2", "/3"} {
		synctest.Test(t, func(t *testing.T) {
			l := newRecorder(t, onePerSecond)
			l.start(t.Context(), "/0")
			ctx, cancel := context.WithCancel(t.Context())
			want := []string{"/0"}
			for _, path := range []string{"/1", "/2", "/3", "/4"} {
				if path == gone {
					l.start(ctx, path)
					continue
				}
				want = append(want, path)
				l.start(t.Context(), path)
			}
			cancel()
			synctest.Wait()
			_, ended := l.snapshot()
			require.Equal(t, seconds(0, 0), ended, "the one that was answered, and the one that left")
			l.all.Wait()
			require.Equal(t, want, l.paths)
			require.Equal(t, seconds(0, 1, 2, 3), l.times())
			require.Zero(t, l.Pending())
		})
	}
}

// A request that has a slot and is not sent releases the slot, for any reason.
func TestSlotIsReleasedForAnyReason(t *testing.T) {
	own := rule("own", "gcra 100/s")
	own.Cost = func(r *http.Request) int64 {
		if r.URL.Path == "/panics" {
			panic("the cost")
		}
		return 1
	}
	for path, test := range map[string]struct {
		store storage.Store
		ended []time.Duration // after the first request has its slot
	}{
		"/panics": {nil, []time.Duration{0, 0}},
		"/fails":  {stuck(), []time.Duration{500 * time.Millisecond, time.Second}},
		"/leaves": {stuck(), []time.Duration{100 * time.Millisecond, 600 * time.Millisecond}},
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newRecorder(t, onePerSecond)
				l.start(t.Context(), "/")
				l.Limiter = newLimiter(t, limiterOptions{Clock: time.Now, Timeout: 500 * time.Millisecond}, test.store, own)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if path == "/leaves" {
					time.AfterFunc(1100*time.Millisecond, cancel)
				}
				l.start(ctx, path)
				l.start(t.Context(), "/next")
				l.all.Wait()
				for i, ended := range l.ended[1:] {
					require.Equal(t, test.ended[i], ended-time.Second)
				}
				require.Zero(t, l.Pending())
			})
		})
	}
}

func TestAllFailAtOnceIfTheWaitIsCertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := "1"
		l := newRecorder(t, func(*http.Request) (*http.Response, error) {
			defer func() { wait = "3000" }()
			return newResponse(200, "RateLimit", `"a";r=0;t=`+wait)
		})
		for range 3 { // the last of which has time
			l.start(t.Context(), "/")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 5 {
			l.start(ctx, "/")
		}
		l.all.Wait()
		require.Equal(t, seconds(0, 1, 3001), l.times())
		require.Equal(t, seconds(0, 1, 1, 1, 1, 1, 1, 3001), l.ended)
	})
}

func TestAllFailAtOnceIfThePauseComesDuringADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRecorder(t, delayedResponse)
		l.Limiter = limiterOf(t, slow(), "gcra 1000/s")
		l.send(t, "0s", `"a";r=1;t=1`)
		time.Sleep(time.Second)
		l.send(t, "20ms", `"a";r=0;t=3000`) // sent at 1.01s, answered at 1.03s
		time.Sleep(25 * time.Millisecond)
		l.start(t.Context(), "/first")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l.start(ctx, "/second")
		time.Sleep(15 * time.Millisecond)
		_, ended := l.snapshot()
		require.Equal(t, []time.Duration{1035 * time.Millisecond}, ended)
		l.all.Wait()
	})
}

// While the Limiter can deny the request that has the slot, the next one can be sent.
func TestRequestWaitsWhileAnotherMayBeDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRecorder(t, onePerSecond)
		own := uploads("gcra 1/h")
		l.Limiter = newLimiter(t, limiterOptions{Clock: time.Now}, slow(), rule("all", "gcra 1000/s"), own)
		l.start(t.Context(), "/up")
		time.Sleep(100 * time.Millisecond)
		l.start(t.Context(), "/up/2")
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		l.start(ctx, "/")
		time.Sleep(1500 * time.Millisecond)
		paths, _ := l.snapshot()
		require.Equal(t, []string{"/up", "/"}, paths)
		l.all.Wait()
	})
}

func TestPauseIsCertainWhateverIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRecorder(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/late" {
				time.Sleep(time.Hour)
			}
			return newResponse(429, "Retry-After", "60")
		})
		l.start(t.Context(), "/late")
		l.start(t.Context(), "/")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.start(ctx, "/")
		_, ended := l.snapshot()
		require.Equal(t, seconds(0, 0), ended)
		l.all.Wait()
	})
}

// The context ends while the Limiter decides. The server's quota remains for the next
// request.
func TestCancelledRequestSpendsNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(map[sluice.Op]int)
		l := newRecorder(t, func(r *http.Request) (*http.Response, error) {
			if err := r.Context().Err(); err != nil {
				return nil, err // as http.Transport does, before anything is on the wire
			}
			return newResponse(200, "RateLimit", `"a";r=0;t=60`)
		})
		l.start(t.Context(), "/first")
		var mu sync.Mutex
		own, err := sluice.Options[*http.Request]{Observer: func(e sluice.Event) {
			mu.Lock()
			calls[e.Op]++
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
		}}.New(nil, rule("own", "gcra 1000/s"))
		require.NoError(t, err)
		l.Limiter = own
		ctx, cancel := context.WithCancel(t.Context())
		l.start(ctx, "/leaves")
		l.start(t.Context(), "/next")
		time.Sleep(60*time.Second + 5*time.Millisecond) // while the Limiter decides about it
		cancel()
		time.Sleep(time.Second)
		paths, _ := l.snapshot()
		l.all.Wait()
		require.Equal(t, []string{"/first", "/next"}, paths)
		require.Equal(t, map[sluice.Op]int{sluice.OpAllow: 2, sluice.OpRefund: 1}, calls)
	})
}

func TestDeniedRequestFailsAtOnceOnALongPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRecorder(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/late" {
				time.Sleep(time.Second)
				return newResponse(503, "Retry-After", "3000")
			}
			return newResponse(200)
		})
		own := uploads("gcra 1/30s")
		l.Limiter = newLimiter(t, limiterOptions{Clock: time.Now}, nil, own)
		l.start(t.Context(), "/up")
		l.start(t.Context(), "/late")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l.start(ctx, "/up/2")
		time.Sleep(2 * time.Second)
		_, ended := l.snapshot()
		l.all.Wait()
		require.Equal(t, seconds(0, 1, 1), ended)
	})
}

func TestPanicClosesTheBody(t *testing.T) {
	for _, who := range []string{"limiter", "key"} {
		c := newTransport(unlimited)
		own := rule("own", "gcra 1/s")
		own.Cost = func(*http.Request) int64 { panic("cost") }
		if who == "key" {
			c.Key = func(*http.Request) string { panic("key") }
		} else {
			c.Limiter = newLimiter(t, limiterOptions{Clock: time.Now}, nil, own)
		}
		r, b := request(t.Context(), t)
		require.Panics(t, func() { _, _ = c.RoundTrip(r) })
		require.True(t, b.closed, who)
		require.Zero(t, c.Pending())
	}
}

// Requests that the Limiter denies again and again do not keep others from the server's
// quota, even if there are many and the store is slow.
func TestDeniedRequestsDoNotStarveOthers(t *testing.T) {
	for _, denied := range []int{50, 150} {
		synctest.Test(t, func(t *testing.T) {
			l := newRecorder(t, onePerSecond)
			upload := uploads("gcra 1/2s")
			l.Limiter = newLimiter(t, limiterOptions{Clock: time.Now, DenialCacheTTL: -1}, slow(), upload) // each denial is looked up
			for i := range denied {
				l.start(t.Context(), fmt.Sprintf("/up/%d", i))
			}
			for i := range 10 {
				l.start(t.Context(), fmt.Sprintf("/never denied/%d", i))
			}
			time.Sleep(40 * time.Second)
			paths, _ := l.snapshot()
			others := 0
			for _, path := range paths {
				others += strings.Count(path, "never")
			}
			require.Equal(t, 10, others, "of %d that were sent", len(paths))
			l.all.Wait()
		})
	}
}

// After a denial, a denied request does not go next again, even if it has a key of its own.
func TestSecondDenialLetsAnUndeniedRequestPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRecorder(t, onePerSecond)
		var decided []string
		own := rule("own", "gcra 1/10s burst=1")
		own.Key = func(r *http.Request) string { return r.URL.Path }
		own.Cost = func(r *http.Request) int64 {
			l.mu.Lock()
			defer l.mu.Unlock()
			decided = append(decided, r.URL.Path)
			return int64(strings.Count(r.URL.Path, "up"))
		}
		l.Limiter = newLimiter(t, limiterOptions{Clock: time.Now}, nil, own)
		charge := func() {
			for _, path := range []string{"/up/1", "/up/2", "/up/3"} {
				r, _ := request(t.Context(), t)
				r.URL.Path = path
				_, err := l.Limiter.Charge(t.Context(), r, 1)
				require.NoError(t, err)
			}
		}
		charge() // so that all are denied for 10 s
		time.Sleep(500 * time.Millisecond)
		for _, path := range []string{"/up/1", "/up/2", "/up/3"} {
			l.start(t.Context(), path)
		}
		for i := range 20 {
			l.start(t.Context(), fmt.Sprint("/", i))
		}
		time.Sleep(9250 * time.Millisecond)
		charge() // so that all are denied again
		l.mu.Lock()
		before := len(decided)
		l.mu.Unlock()
		l.all.Wait()
		require.Equal(t, []string{"/up/1", "/10", "/up/2", "/11", "/up/3", "/12"}, decided[before:before+6])
	})
}
