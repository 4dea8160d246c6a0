package httplimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// oneASecond answers that nothing is left, but one a second comes back.
func oneASecond(*http.Request) (*http.Response, error) {
	return says(200, "RateLimit", `"a";r=0;t=1`)
}

// line is a Transport to a server, whose requests are told apart by their paths.
type line struct {
	*transport
	t     *testing.T
	paths []string        // as they were sent
	ended []time.Duration // since the test began, in whatever way
	all   sync.WaitGroup
}

func newLine(t *testing.T, answer func(*http.Request) (*http.Response, error)) *line {
	l := &line{t: t}
	l.transport = newTransport(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		l.paths = append(l.paths, r.URL.Path)
		l.mu.Unlock()
		return answer(r)
	})
	return l
}

// join sends a request, and returns when it waits or was answered.
func (l *line) join(ctx context.Context, path string) {
	r, _ := request(ctx, l.t)
	r.URL.Path = path
	l.all.Go(func() {
		defer func() {
			_ = recover() // from what a test's limiter does
			l.mu.Lock()
			defer l.mu.Unlock()
			l.ended = append(l.ended, time.Since(l.began))
		}()
		_, _ = l.RoundTrip(r)
	})
	synctest.Wait()
}

// soFar tells the paths that were sent, and when requests ended.
func (l *line) soFar() (paths []string, ended []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.paths), slices.Clone(l.ended)
}

// uploads is a rule that requests with "up" in their paths pay, and no others.
func uploads(spec string) compose.Rule[*http.Request] {
	r := rule("upload", spec)
	r.Cost = func(r *http.Request) int64 { return int64(strings.Count(r.URL.Path, "up")) }
	return r
}

// counted has a limiter's observer count what it was asked.
func counted(t *testing.T, store storage.Store, asked map[compose.Op]int, rules ...compose.Rule[*http.Request]) *compose.Limiter[*http.Request] {
	t.Helper()
	var mu sync.Mutex
	limiter, err := compose.Options[*http.Request]{Clock: time.Now, Observer: func(e compose.Event) {
		mu.Lock()
		defer mu.Unlock()
		asked[e.Op]++
	}}.New(store, rules...)
	require.NoError(t, err)
	return limiter
}

// However many wait for the server, the limiter is asked for those it lets send.
func TestTheLimiterIsAskedInTurn(t *testing.T) {
	for _, status := range []int{200, 503} {
		for _, store := range []storage.Store{new(memory.Store), slow{new(memory.Store)}} {
			synctest.Test(t, func(t *testing.T) {
				asked := make(map[compose.Op]int)
				c := newTransport(func(*http.Request) (*http.Response, error) {
					return says(status, "Retry-After", "1", "RateLimit", `"a";r=0;t=1`)
				})
				c.Limiter = counted(t, store, asked, rule(http.StatusText(status), "gcra 1000/s"))
				c.asked(t, 1)
				c.together(t, 30)
				require.Equal(t, map[compose.Op]int{compose.OpAllow: 31}, asked)
			})
		}
	}
}

// Of as many as are left, none waits for the limiter's answer to another: they share
// its round trips.
func TestAsManyAskAtOnceAsAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTransport(func(*http.Request) (*http.Response, error) {
			return says(200, "RateLimit", `"a";r=10;t=60`)
		})
		c.asked(t, 1)
		c.Limiter = within(t, slowUpdates{new(memory.Store)}, "gcra 1000/s")
		c.together(t, 10)
		require.LessOrEqual(t, c.times()[10], 20*time.Millisecond)
	})
}

func TestInOrderOfArrival(t *testing.T) {
	for name, store := range map[string]storage.Store{"no limiter": nil, "far": slow{new(memory.Store)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t, oneASecond)
				if store != nil {
					l.Limiter = within(t, store, "gcra 1000/s")
				}
				var want []string
				for i := range 30 {
					want = append(want, fmt.Sprintf("/%d", i))
					l.join(t.Context(), want[i])
					time.Sleep(70 * time.Millisecond) // so that some come when the gate is open
				}
				l.all.Wait()
				require.Equal(t, want, l.paths)
			})
		})
	}
}

// Of many who are denied alike, the first asks again, and not all whenever one may be
// allowed.
func TestTheDeniedDoNotAllAskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(map[compose.Op]int)
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(200) })
		c.Limiter = counted(t, nil, asked, rule("own", "gcra 10/s burst=1"))
		c.together(t, 1000)
		require.Less(t, asked[compose.OpAllow], 10_000)
		require.Equal(t, 99900*time.Millisecond, time.Since(c.began), "at the full rate")
	})
}

// Who asks for less is denied otherwise, and does not wait for the others.
func TestTheDeniedAreDeniedAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, func(*http.Request) (*http.Response, error) { return says(200) })
		own := rule("own", "gcra 1/s burst=10")
		own.Cost = func(r *http.Request) int64 { return int64(len(r.URL.Path)) }
		l.Limiter = counted(t, nil, make(map[compose.Op]int), own)
		l.join(t.Context(), "/ten bytes")
		l.join(t.Context(), "/nine byt") // for which it takes 9 s
		l.join(t.Context(), "/a")        // for which it takes 2 s
		l.join(t.Context(), "/b")
		l.all.Wait()
		require.Equal(t, []string{"/ten bytes", "/a", "/b", "/nine byt"}, l.paths)
		require.Equal(t, seconds(0, 2, 4, 13), l.times())
	})
}

func TestTheDeniedOfOneKeyDoNotHoldUpThoseOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, func(*http.Request) (*http.Response, error) { return says(200) })
		own := rule("own", "gcra 1/10s")
		own.Key = func(r *http.Request) string { return r.URL.Path }
		l.Limiter = counted(t, nil, make(map[compose.Op]int), own)
		for _, path := range []string{"/a", "/b"} {
			l.join(t.Context(), path)
			l.join(t.Context(), path)
			time.Sleep(5 * time.Second)
		}
		l.all.Wait()
		require.Equal(t, seconds(0, 5, 10, 15), l.times())
	})
}

// Who was to ask again for others leaves.
func TestALeaderOfTheDeniedLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, func(*http.Request) (*http.Response, error) { return says(200) })
		l.Limiter = within(t, nil, "gcra 1/10s")
		l.join(t.Context(), "/1")
		ctx, leave := context.WithCancel(t.Context())
		l.join(ctx, "/2")
		l.join(t.Context(), "/3")
		time.Sleep(time.Second)
		leave()
		l.all.Wait()
		require.Equal(t, []string{"/1", "/3"}, l.paths)
		require.Equal(t, seconds(0, 10), l.times())
	})
}

// Whom the limiter denies is passed by those it allows, and is the first again when it
// may be sent.
func TestTheDeniedStepAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, oneASecond)
		own := uploads("gcra 2/11s burst=1")
		asked := make(map[compose.Op]int)
		l.Limiter = counted(t, nil, asked, own)
		for _, path := range []string{"/up", "/up/2", "/1", "/2", "/3", "/4", "/5", "/6", "/7"} {
			l.join(t.Context(), path)
		}
		l.all.Wait()
		require.Equal(t, []string{"/up", "/1", "/2", "/3", "/4", "/5", "/up/2", "/6", "/7"}, l.paths)
		require.Equal(t, seconds(0, 1, 2, 3, 4, 5, 6, 7, 8), l.times(), "no turn was lost")
		require.Equal(t, map[compose.Op]int{compose.OpAllow: 10}, asked, "once for each, and once more for the denied")
	})
}

// Who leaves does so at once, and holds up nobody.
func TestWhoLeavesTheLine(t *testing.T) {
	for _, gone := range []string{"/1", "/2", "/3"} {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(t, oneASecond)
			l.join(t.Context(), "/0")
			ctx, cancel := context.WithCancel(t.Context())
			want := []string{"/0"}
			for _, path := range []string{"/1", "/2", "/3", "/4"} {
				if path == gone {
					l.join(ctx, path)
					continue
				}
				want = append(want, path)
				l.join(t.Context(), path)
			}
			cancel()
			synctest.Wait()
			_, ended := l.soFar()
			require.Equal(t, seconds(0, 0), ended, "the one that was answered, and the one that left")
			l.all.Wait()
			require.Equal(t, want, l.paths)
			require.Equal(t, seconds(0, 1, 2, 3), l.times())
			require.Zero(t, l.Pending())
		})
	}
}

// stuck is a store that answers nothing.
type stuck struct{ storage.Store }

func (s stuck) Load(ctx context.Context, _ ...string) ([]storage.Record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s stuck) CompareAndSwap(ctx context.Context, _ ...storage.Swap) ([]storage.Record, bool, error) {
	<-ctx.Done()
	return nil, false, ctx.Err()
}

// What has its turn and is not sent lets the next have it, whatever kept it.
func TestATurnIsNotLost(t *testing.T) {
	own := rule("own", "gcra 100/s")
	own.Cost = func(r *http.Request) int64 {
		if r.URL.Path == "/panics" {
			panic("the cost")
		}
		return 1
	}
	for path, test := range map[string]struct {
		store storage.Store
		ended []time.Duration // after the first has its turn
	}{
		"/panics": {nil, []time.Duration{0, 0}},
		"/fails":  {stuck{new(memory.Store)}, []time.Duration{500 * time.Millisecond, time.Second}},
		"/leaves": {stuck{new(memory.Store)}, []time.Duration{100 * time.Millisecond, 600 * time.Millisecond}},
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t, oneASecond)
				l.join(t.Context(), "/")
				o := compose.Options[*http.Request]{Clock: time.Now, Timeout: 500 * time.Millisecond}
				limiter, err := o.New(test.store, own)
				require.NoError(t, err)
				l.Limiter = limiter
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if path == "/leaves" {
					time.AfterFunc(1100*time.Millisecond, cancel)
				}
				l.join(ctx, path)
				l.join(t.Context(), "/next")
				l.all.Wait()
				for i, ended := range l.ended[1:] {
					require.Equal(t, test.ended[i], ended-time.Second)
				}
				require.Zero(t, l.Pending())
			})
		})
	}
}

// All who wait are told when the gate stays closed for longer than they have.
func TestAllInLineFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := "1"
		l := newLine(t, func(*http.Request) (*http.Response, error) {
			defer func() { wait = "3000" }()
			return says(200, "RateLimit", `"a";r=0;t=`+wait)
		})
		for range 3 { // the last of which has time
			l.join(t.Context(), "/")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 5 {
			l.join(ctx, "/")
		}
		l.all.Wait()
		require.Equal(t, seconds(0, 1, 3001), l.times())
		require.Equal(t, seconds(0, 1, 1, 1, 1, 1, 1, 3001), l.ended)
	})
}

// Nor is there hope when the answer that closed the gate came while the first in line
// asked the limiter.
func TestAllInLineFailWhenTheFirstIsTurnedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, late)
		l.Limiter = within(t, slow{new(memory.Store)}, "gcra 1000/s")
		l.told(t, "0s", `"a";r=1;t=1`)
		time.Sleep(time.Second)
		l.told(t, "20ms", `"a";r=0;t=3000`) // sent at 1.01s, answered at 1.03s
		time.Sleep(25 * time.Millisecond)
		l.join(t.Context(), "/first")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l.join(ctx, "/second")
		time.Sleep(15 * time.Millisecond)
		_, ended := l.soFar()
		require.Equal(t, []time.Duration{1035 * time.Millisecond}, ended)
		l.all.Wait()
	})
}

// As long as the limiter may deny who has the turn, there is hope for the next.
func TestTheNextMayBeSentInstead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, oneASecond)
		own := uploads("gcra 1/h")
		l.Limiter = counted(t, slow{new(memory.Store)}, make(map[compose.Op]int), rule("all", "gcra 1000/s"), own)
		l.join(t.Context(), "/up")
		time.Sleep(100 * time.Millisecond)
		l.join(t.Context(), "/up/2")
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		l.join(ctx, "/")
		time.Sleep(1500 * time.Millisecond)
		paths, _ := l.soFar()
		require.Equal(t, []string{"/up", "/"}, paths)
		l.all.Wait()
	})
}

// A stop is certain, whatever answers are still to come.
func TestAStopIsCertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/late" {
				time.Sleep(time.Hour)
			}
			return says(429, "Retry-After", "60")
		})
		l.join(t.Context(), "/late")
		l.join(t.Context(), "/")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.join(ctx, "/")
		_, ended := l.soFar()
		require.Equal(t, seconds(0, 0), ended)
		l.all.Wait()
	})
}

// Whatever happens, nobody is forgotten in line, and nobody's place is left behind.
func TestNobodyIsLeftInLine(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) { crowd(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func crowd(t *testing.T, random *rand.Rand) {
	var mu sync.Mutex
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	c := newTransport(func(*http.Request) (*http.Response, error) {
		time.Sleep(time.Duration(draw(100)) * time.Millisecond)
		if draw(10) == 0 {
			return says(429, "Retry-After", "3")
		}
		return says(200, "RateLimit", fmt.Sprintf(`"a";r=%d;t=1`, draw(4)))
	})
	c.Limiter = within(t, slow{new(memory.Store)}, "gcra 5/s burst=3")
	var all sync.WaitGroup
	for range 200 {
		leaves, patience := draw(4), time.Duration(draw(10_000))*time.Millisecond
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			switch leaves {
			case 0:
				time.AfterFunc(patience, cancel)
			case 1:
				ctx, cancel = context.WithTimeout(ctx, patience)
			}
			defer cancel()
			r, _ := request(ctx, t)
			if _, err := c.RoundTrip(r); err != nil {
				require.Less(t, leaves, 2, "%v", err)
			}
		})
		time.Sleep(time.Duration(draw(20)) * time.Millisecond)
	}
	all.Wait()
	require.Zero(t, c.Pending())
	require.Less(t, time.Since(c.began), time.Hour)
}
