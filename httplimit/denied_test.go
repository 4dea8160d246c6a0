package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage/memory"
)

// Of many that the limiter denies, the first is sent first.
func TestDeniedKeepTheirOrder(t *testing.T) {
	for _, left := range []string{"0"} {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(t, leaves(left))
			l.Limiter = within(t, nil, "gcra 1/2s")
			var want []string
			for i := range 20 {
				want = append(want, fmt.Sprintf("/%d", i))
				l.join(t.Context(), want[i])
				time.Sleep(10 * time.Millisecond)
			}
			l.all.Wait()
			require.Equal(t, want, l.paths)
		})
	}
}

func leaves(left string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return says(200, "RateLimit", `"a";r=`+left+`;t=1`) }
}

// A request whose context ends while the limiter is asked is not sent: what the server
// has left is for the next.
func TestATurnIsNotSpentOnOneWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(map[compose.Op]int)
		l := newLine(t, func(r *http.Request) (*http.Response, error) {
			if err := r.Context().Err(); err != nil {
				return nil, err // as http.Transport does, before anything is on the wire
			}
			return says(200, "RateLimit", `"a";r=0;t=60`)
		})
		l.join(t.Context(), "/first")
		own := rule("own", "gcra 1000/s")
		own.Cost = func(*http.Request) int64 {
			time.Sleep(10 * time.Millisecond) // it looks the cost up
			return 1
		}
		l.Limiter = counted(t, nil, asked, own)
		ctx, cancel := context.WithCancel(t.Context())
		l.join(ctx, "/leaves")
		l.join(t.Context(), "/next")
		time.Sleep(60*time.Second + 5*time.Millisecond) // its turn, and its limiter is asked
		cancel()
		time.Sleep(time.Second)
		paths, _ := l.soFar()
		l.all.Wait()
		require.Equal(t, []string{"/first", "/next"}, paths)
		require.Equal(t, map[compose.Op]int{compose.OpAllow: 2, compose.OpRefund: 1}, asked)
	})
}

// Whom the limiter denied hears of a stop that its context does not outlast.
func TestTheDeniedHearOfAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/late" {
				time.Sleep(time.Second)
				return says(503, "Retry-After", "3000")
			}
			return says(200)
		})
		own := uploads("gcra 1/30s")
		l.Limiter = counted(t, nil, make(map[compose.Op]int), own)
		l.join(t.Context(), "/up")
		l.join(t.Context(), "/late")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l.join(ctx, "/up/2")
		time.Sleep(2 * time.Second)
		_, ended := l.soFar()
		l.all.Wait()
		require.Equal(t, seconds(0, 1, 1), ended)
	})
}

// The body is closed even if the limiter, or Key, panics.
func TestThePanickingCloseTheBody(t *testing.T) {
	for _, who := range []string{"limiter", "key"} {
		c := newTransport(func(*http.Request) (*http.Response, error) { return says(200) })
		own := rule("own", "gcra 1/s")
		own.Cost = func(*http.Request) int64 { panic("cost") }
		if who == "key" {
			c.Key = func(*http.Request) string { panic("key") }
		} else {
			c.Limiter = counted(t, nil, make(map[compose.Op]int), own)
		}
		r, b := request(t.Context(), t)
		require.Panics(t, func() { _, _ = c.RoundTrip(r) })
		require.True(t, b.closed, who)
		require.Zero(t, c.Pending())
	}
}

// Whom the limiter denies again and again does not keep the others from the server's
// turns, however many they are and however far the limiter's store is.
func TestTheDeniedDoNotStarveTheOthers(t *testing.T) {
	for _, denied := range []int{50, 150} {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(t, oneASecond)
			upload := uploads("gcra 1/2s")
			o := compose.Options[*http.Request]{Clock: time.Now, DenialCacheTTL: -1} // each denial is looked up
			limiter, err := o.New(slow{new(memory.Store)}, upload)
			require.NoError(t, err)
			l.Limiter = limiter
			for i := range denied {
				l.join(t.Context(), fmt.Sprintf("/up/%d", i))
			}
			for i := range 10 {
				l.join(t.Context(), fmt.Sprintf("/never denied/%d", i))
			}
			time.Sleep(40 * time.Second)
			paths, _ := l.soFar()
			others := 0
			for _, path := range paths {
				others += strings.Count(path, "never")
			}
			require.Equal(t, 10, others, "of %d that were sent", len(paths))
			l.all.Wait()
		})
	}
}
