package frontdoor

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

// A slow upstream answers in two halves, and from one point on is told when to send
// the second.
type slow struct {
	mu     sync.Mutex
	begun  map[string]bool // the paths that were asked for
	held   int
	hold   bool
	letGo  chan struct{}
	halves [2]string
}

func newSlow() *slow {
	return &slow{begun: map[string]bool{}, letGo: make(chan struct{}),
		halves: [2]string{strings.Repeat("a", 10_000), strings.Repeat("b", 10_000)}}
}

// ServeHTTP implements http.Handler.
func (s *slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	held := s.note(r.URL.Path)
	_, _ = io.WriteString(w, s.halves[0])
	_ = http.NewResponseController(w).Flush()
	if held {
		<-s.letGo
	}
	_, _ = io.WriteString(w, s.halves[1])
}

func (s *slow) note(path string) (held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[path] = true
	if s.hold {
		s.held++
	}
	return s.hold
}

// holdBack holds back what comes from now on.
func (s *slow) holdBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = true
}

func (s *slow) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

func (s *slow) paths() (paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.begun {
		paths = append(paths, path)
	}
	return paths
}

// A receiver asks for one thing after the other until nobody is there any more.
type receiver struct {
	client http.Client
	url    string
	number int
	whole  map[string]bool // what it got all of
}

func (r *receiver) receive(want string) error {
	defer r.client.CloseIdleConnections()
	for i := 0; ; i++ {
		path := fmt.Sprintf("/%d/%d", r.number, i)
		answer, err := r.client.Get(r.url + path)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || string(body) != want {
			return fmt.Errorf("%s: %s, %d bytes, %w", path, answer.Status, len(body), err)
		}
		r.whole[path] = true
	}
}

// TestShutdownDelay: after SIGTERM the program says that it is not ready, and goes on to
// serve new connections until the delay is over or a second signal comes. An interrupt has
// no delay.
func TestShutdownDelay(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := serve(t, "--limit", "gcra 100/s", "--upstream", newUpstream(t).url, "--shutdown-delay", "1h")
		require.Equal(t, http.StatusOK, get(t, p.api+"/readyz"))
		p.signal(s)
		if s == syscall.SIGTERM {
			require.Eventually(t, func() bool { return get(t, p.api+"/readyz") == http.StatusServiceUnavailable }, testTimeout, time.Millisecond)
			require.Equal(t, http.StatusOK, get(t, p.api+"/livez"))
			require.Equal(t, http.StatusOK, get(t, p.proxy))
			p.signal(s)
		}
		require.Zero(t, p.code())
		p.says("cut=false")
	}
}

// TestShutdownUnderLoad ends the program while requests come. Each that was let
// through to the upstream is answered in full, and those that come later find
// nobody there.
func TestShutdownUnderLoad(t *testing.T) {
	const callers = 32
	s := newSlow()
	server := httptest.NewServer(s)
	defer server.Close()
	p := serve(t, "--limit", "gcra 1000000/s", "--upstream", server.URL, "--listen", place(t), "--drain", testTimeout.String())

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
	p.says("shutting down")
	close(s.letGo)
	calls.Wait()
	require.Zero(t, p.code())
	p.says("cut=false")

	for _, path := range s.paths() {
		var number int
		_, err := fmt.Sscanf(path, "/%d/", &number)
		require.NoError(t, err)
		require.True(t, receivers[number].whole[path], "%s: %v", path, failures[number])
	}
	for _, failure := range failures {
		require.Regexp(t, unconnected, failure.Error())
	}
}
