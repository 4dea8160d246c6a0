// The tests promise that the client keeps its own limit, adapts to the limit that a server announces, and
// waits for Retry-After.
package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

// server is a transport that calls a handler. It uses no network, so it works under
// testing/synctest.
type server struct {
	http.Handler
	statuses []int
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	s.statuses = append(s.statuses, w.Code)
	return w.Result(), nil
}

// limited returns a server with one limit for all clients.
func limited(t *testing.T, spec string) *server {
	t.Helper()
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	limiter := sluice.MustFor(nil, sluice.Rule[*http.Request]{Name: "everyone", Spec: spec})
	return &server{Handler: httplimit.Handler(limiter, hello, httplimit.Options{})}
}

// fetchMany fetches one URL n times and returns how long that took.
func fetchMany(t *testing.T, s *server, n int) time.Duration {
	t.Helper()
	client := newClient(s)
	began := time.Now()
	for range n {
		status, err := fetch(t.Context(), client, "http://example.com/")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
	}
	return time.Since(began)
}

func TestClientKeepsItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := fetchMany(t, limited(t, "gcra 1000/s"), 12)
		require.Equal(t, 2*time.Second, took, "2 at once and 10 at 5 a second")
	})
}

func TestClientIsNeverDeniedByAServerThatAnnouncesItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limited(t, "fixedwindow 3/10s")
		took := fetchMany(t, s, 9)
		require.NotContains(t, s.statuses, http.StatusTooManyRequests)
		require.GreaterOrEqual(t, took, 20*time.Second)
		require.Less(t, took, 23*time.Second)
	})
}

func TestClientWaitsForRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denied := false
		s := &server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !denied {
				denied = true
				w.Header().Set("Retry-After", "30")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		})}
		took := fetchMany(t, s, 1)
		require.Equal(t, []int{429, 200}, s.statuses)
		require.GreaterOrEqual(t, took, 30*time.Second)
	})
}
