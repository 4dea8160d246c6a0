package servetest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answer is a response and its body.
type answer struct {
	*http.Response
	text string
}

// send sends a request on a new connection: POST if there is a body, else GET. fields are names and values of its header.
func send(t *testing.T, url, body string, fields ...string) answer {
	t.Helper()
	return sendOver(t, "", url, body, fields...)
}

// sendOver sends a request over a unix socket, or over TCP if there is none.
func sendOver(t *testing.T, socket, url, body string, fields ...string) answer {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	if socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	response, err := (&http.Client{Timeout: testTimeout, Transport: transport}).Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{response, string(text)}
}

// get returns the status of a GET request.
func get(t *testing.T, url string) int {
	t.Helper()
	return send(t, url, "").StatusCode
}

// load sends requests over several connections, on each one after the other, until it stops.
type load struct {
	stopped  atomic.Bool
	callers  sync.WaitGroup
	mu       sync.Mutex
	statuses map[int]int64
	failures []error
}

// startLoad starts a load. Each of the connections sends each requests, or as many as it can if each is 0. After a request it
// waits for pause. request returns the request number n of a connection.
func startLoad(connections, each int, pause time.Duration, request func(connection, n int) *http.Request) *load {
	l := &load{statuses: map[int]int64{}}
	for connection := range connections {
		l.callers.Go(func() {
			client := &http.Client{Timeout: testTimeout, Transport: new(http.Transport)}
			defer client.CloseIdleConnections()
			for n := 0; !l.stopped.Load() && (each == 0 || n < each); n++ {
				l.count(client.Do(request(connection, n)))
				time.Sleep(pause)
			}
		})
	}
	return l
}

// steadyLoad sends at most 1600 requests a second.
func steadyLoad(url string) *load {
	return startLoad(16, 0, 10*time.Millisecond, func(int, int) *http.Request { return newRequest(url) })
}

func newRequest(url string) *http.Request {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		panic(err) // the tests have valid URLs
	}
	return r
}

// count counts a response if it is complete, and otherwise its error.
func (l *load) count(response *http.Response, err error) {
	var size int64
	if err == nil {
		size, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures = append(l.failures, fmt.Errorf("after %d bytes: %w", size, err))
		return
	}
	l.statuses[response.StatusCode]++
}

// stop waits for the requests in flight and ends the load.
func (l *load) stop() {
	l.stopped.Store(true)
	l.callers.Wait()
}

// ended returns a channel that is closed when all requests have been sent.
func (l *load) ended() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		l.callers.Wait()
		close(done)
	}()
	return done
}

// requireOnly requires that no other statuses occurred.
func (l *load) requireOnly(t *testing.T, statuses ...int) {
	t.Helper()
	for status := range l.statuses {
		require.Contains(t, statuses, status, "%v", l.statuses)
	}
}

// upstream counts the requests that it receives. It sends its responses in two halves.
type upstream struct {
	url         string
	mu          sync.Mutex
	count       int64
	first, last time.Time
	hold        chan struct{} // if not nil, the second half waits until it is closed
	held        int
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
	hold := u.record(time.Now())
	w.Header().Set("Content-Length", fmt.Sprint(len(greeting)))
	_, _ = io.WriteString(w, greeting[:3])
	if hold != nil {
		_ = http.NewResponseController(w).Flush()
		<-hold
	}
	_, _ = io.WriteString(w, greeting[3:])
}

func (u *upstream) record(now time.Time) (hold chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count == 0 {
		u.first = now
	}
	u.count++
	u.last = now
	if u.hold != nil {
		u.held++
	}
	return u.hold
}

// holdBack holds back the second half of later responses until release is called. It returns when it holds back n.
func (u *upstream) holdBack(t *testing.T, n int) (release func()) {
	t.Helper()
	hold := make(chan struct{})
	u.mu.Lock()
	u.hold = hold
	u.mu.Unlock()
	require.Eventually(t, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.held >= n
	}, testTimeout, time.Millisecond)
	return func() { close(hold) }
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
