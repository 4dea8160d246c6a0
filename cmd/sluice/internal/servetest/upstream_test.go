package servetest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// upstream counts the requests that it receives.
type upstream struct {
	url         string
	mu          sync.Mutex
	count       int64
	first, last time.Time
}

const greeting = "hello\n"

func newUpstream(t *testing.T) *upstream {
	u := new(upstream)
	server := httptest.NewServer(u)
	t.Cleanup(server.Close)
	u.url = server.URL
	return u
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	u.record(time.Now())
	_, _ = w.Write([]byte(greeting))
}

func (u *upstream) record(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count == 0 {
		u.first = now
	}
	u.count++
	u.last = now
}

// admitted returns the number of requests.
func (u *upstream) admitted() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count
}

// span returns the time between the first and the last request.
func (u *upstream) span() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last.Sub(u.first)
}

// await waits until count requests have arrived.
func (u *upstream) await(t *testing.T, count int64) {
	t.Helper()
	require.Eventually(t, func() bool { return u.admitted() >= count }, testTimeout, time.Millisecond,
		"the upstream did not receive %d requests", count)
}
