package servetest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowUpstream sends its responses in two halves. After holdBack, it sends the second half only after
// release is closed.
type slowUpstream struct {
	mu      sync.Mutex
	begun   map[string]bool // the requested paths
	held    int
	hold    bool
	release chan struct{}
	halves  [2]string
}

func newSlowUpstream() *slowUpstream {
	return &slowUpstream{begun: map[string]bool{}, release: make(chan struct{}),
		halves: [2]string{strings.Repeat("a", 10_000), strings.Repeat("b", 10_000)}}
}

// ServeHTTP implements http.Handler.
func (s *slowUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	held := s.record(r.URL.Path)
	_, _ = io.WriteString(w, s.halves[0])
	_ = http.NewResponseController(w).Flush()
	if held {
		<-s.release
	}
	_, _ = io.WriteString(w, s.halves[1])
}

func (s *slowUpstream) record(path string) (held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[path] = true
	if s.hold {
		s.held++
	}
	return s.hold
}

// holdBack holds back the responses to all later requests.
func (s *slowUpstream) holdBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = true
}

func (s *slowUpstream) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

func (s *slowUpstream) paths() (paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.begun {
		paths = append(paths, path)
	}
	return paths
}

// receiver sends requests one after the other until the connection is refused.
type receiver struct {
	client http.Client
	url    string
	number int
	whole  map[string]bool // the paths whose response was complete
}

func (r *receiver) receive(want string) error {
	defer r.client.CloseIdleConnections()
	for i := 0; ; i++ {
		path := fmt.Sprintf("/%d/%d", r.number, i)
		response, err := r.client.Get(r.url + path)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || string(body) != want {
			return fmt.Errorf("%s: %s, %d bytes, %w", path, response.Status, len(body), err)
		}
		r.whole[path] = true
	}
}

// TestShutdownDelay: after SIGTERM, /readyz fails, and the program still serves new connections until the
// delay is over or a second signal arrives. After SIGINT there is no delay.
func TestShutdownDelay(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := serve(t, "--limit", "gcra 100/s", "--upstream", newUpstream(t).url, "--shutdown-delay", "1h")
		require.Equal(t, http.StatusOK, get(t, p.api+"/readyz"))
		p.signal(s)
		if s == syscall.SIGTERM {
			require.Eventually(t, func() bool { return get(t, p.api+"/readyz") == http.StatusServiceUnavailable }, testTimeout, time.Millisecond)
			require.Equal(t, http.StatusOK, get(t, p.api+"/livez"))
			require.Equal(t, http.StatusOK, get(t, p.proxy))
			require.Equal(t, http.StatusOK, curl(t, p.api+"/v1/allow", "-d", `{"key":"a"}`).StatusCode)
			p.waitForLog(`msg="shutting down" delay=1h0m0s`)
			p.signal(s)
		}
		require.Zero(t, p.exitCode())
		p.waitForLog("cut=false")
	}
}

// TestShutdownUnderLoad ends the program under load. Each request that reached the upstream gets its whole
// response. Later requests cannot connect.
func TestShutdownUnderLoad(t *testing.T) {
	const callers = 32
	s := newSlowUpstream()
	server := httptest.NewServer(s)
	defer server.Close()
	p := serve(t, "--limit", "gcra 1000000/s", "--upstream", server.URL, "--listen", freeAddress(t), "--drain", testTimeout.String())

	var receivers [callers]receiver
	var failures [callers]error
	var calls sync.WaitGroup
	for i := range receivers {
		receivers[i] = receiver{http.Client{Timeout: testTimeout, Transport: new(http.Transport)}, p.proxy, i, map[string]bool{}}
		calls.Go(func() { failures[i] = receivers[i].receive(s.halves[0] + s.halves[1]) })
	}
	require.Eventually(t, func() bool { return len(s.paths()) > 10*callers }, testTimeout, time.Millisecond)
	s.holdBack()
	require.Eventually(t, func() bool { return s.waiting() > callers/2 }, testTimeout, time.Millisecond)
	p.signal(syscall.SIGTERM)
	p.waitForLog("shutting down")
	close(s.release)
	calls.Wait()
	require.Zero(t, p.exitCode())
	p.waitForLog("cut=false")

	for _, path := range s.paths() {
		var number int
		_, err := fmt.Sscanf(path, "/%d/", &number)
		require.NoError(t, err)
		require.True(t, receivers[number].whole[path], "%s: %v", path, failures[number])
	}
	for _, failure := range failures {
		require.Regexp(t, connectionErrors, failure.Error())
	}
}
