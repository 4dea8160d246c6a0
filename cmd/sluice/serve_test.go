package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

// serving is a process that serves.
type serving struct {
	*exec.Cmd
	t        *testing.T
	log      io.Closer
	lines    chan string // of the log
	logLines []string
}

// startServe starts the program with real arguments, and without a delay at its end unless args have one.
func startServe(t *testing.T, args ...string) *serving {
	t.Helper()
	if !slices.Contains(args, "--shutdown-delay") {
		args = append(args, "--shutdown-delay", "0s")
	}
	s := &serving{Cmd: exec.Command(os.Args[0], append([]string{"serve"}, args...)...), t: t, lines: make(chan string, 1000)}
	s.Env = append(os.Environ(), "SLUICE_TEST_MAIN=1")
	log, err := s.StderrPipe()
	require.NoError(t, err)
	s.log = log
	require.NoError(t, s.Start())
	t.Cleanup(func() { s.Process.Kill() })
	go func() {
		defer close(s.lines)
		for in := bufio.NewScanner(log); in.Scan(); {
			s.lines <- in.Text()
		}
	}()
	return s
}

// waitForLog waits for a line of the log and returns what the group in it matched.
func (s *serving) waitForLog(pattern string) string {
	s.t.Helper()
	late := time.After(testTimeout)
	for {
		select {
		case line, more := <-s.lines:
			s.logLines = append(s.logLines, line)
			if m := regexp.MustCompile(pattern).FindStringSubmatch(line); m != nil {
				return m[len(m)-1]
			}
			if more {
				continue
			}
		case <-late:
		}
		s.t.Fatalf("does not say %q, but\n%s", pattern, strings.Join(s.logLines, "\n"))
	}
}

func (s *serving) signal(sig os.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.Process.Signal(sig))
}

// exitCode is the one that it exits with, once it does.
func (s *serving) exitCode() int {
	s.t.Helper()
	for range s.lines { // until it has ended
	}
	_ = s.Wait() // the code tells
	return s.ProcessState.ExitCode()
}

func status(t *testing.T, url string) int {
	t.Helper()
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout}).Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

func upstream(t *testing.T, h http.HandlerFunc) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func nothing(http.ResponseWriter, *http.Request) {}

func TestServeEndsAtOnceWithASecondSignal(t *testing.T) {
	there := make(chan struct{})
	s := startServe(t, "--limit", "gcra 100/m", "--listen", "127.0.0.1:0", "--drain", "1h", "--upstream",
		upstream(t, func(_ http.ResponseWriter, r *http.Request) {
			close(there)
			<-r.Context().Done()
		}))
	url := s.waitForLog(`msg=serving .*proxy=(\S+)`)
	go http.Get(url)
	<-there
	s.signal(syscall.SIGTERM)
	s.waitForLog(`msg="shutting down"`)
	s.signal(syscall.SIGTERM)
	s.waitForLog(`sluice: requests in flight were cut off; to give them more time, set a longer --drain`)
	require.Equal(t, cli.ExitFailed, s.exitCode())
}

func TestInvalidCommandLinesOfServe(t *testing.T) {
	clitest.Transcript(t, "serve_failures.txt", map[string]string{
		"short": "short\n", "spaced": "with a space, and long\n", "limits.yaml": "rules: [{name: a, policy: gcar 1/s}]",
	})
	const another = "192.0.2.1:80" // an address of another machine
	clitest.RequireFailure(t, []string{"serve", "--limit=gcra 1/s", "--upstream=http://192.0.2.2", "--listen", another}, cli.ExitFailed, "--listen "+another+": ")
}

// TestStoreAddressFromTheEnvironment: unlike a flag, the environment does not show the password
// in process lists.
func TestStoreAddressFromTheEnvironment(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	t.Setenv("SLUICE_STORE", store)
	s := startServe(t, "--limit=gcra 1/s", "--api=127.0.0.1:0")
	s.waitForLog(`msg=serving .*store=` + store + ` `)
	s.signal(os.Interrupt)
	require.Zero(t, s.exitCode())
	require.Contains(t, clitest.Ok(t, "", "serve", "--help"), "SLUICE_STORE")
}

// TestInvalidStoreInTheEnvironment: the error names the variable and has no password.
func TestInvalidStoreInTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		store, want string
		exitCode    int
		args        []string
	}{
		{"mysql://u:secret@h", "SLUICE_STORE mysql://u:xxxxx@h: want memory:, sqlite:FILE", 2, nil},
		{"redis://u:secret@h", "--max-keys is for the store memory: only, and the store is redis", 2, []string{"--max-keys", "1"}},
		{"redis://u:secret@" + refusing(t), "SLUICE_STORE redis://u:xxxxx@", 1, nil},
		{"", "--store mysql://u:xxxxx@h: want memory:", 2, []string{"--store", "mysql://u:secret@h"}},
		{"redis://u:secret@h", "--store mysql://u:xxxxx@h: want memory:", 2, []string{"--store", "mysql://u:secret@h"}},
	} {
		t.Setenv("SLUICE_STORE", c.store)
		exitCode, out, errs := clitest.Execute(t, "", append([]string{"serve", "--limit=gcra 1/s", "--api=127.0.0.1:0"}, c.args...)...)
		require.Equal(t, c.exitCode, exitCode, errs)
		require.Contains(t, errs, c.want)
		require.Empty(t, out)
		require.NotContains(t, errs, "secret")
	}
}

// refusing is an address where nobody listens.
func refusing(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// awaited is the end of a pipe to write into, once somebody reads the other.
func awaited(t *testing.T, path string) *os.File {
	t.Helper()
	var end *os.File
	require.Eventually(t, func() (there bool) {
		var err error
		end, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil // while nobody reads it is ENXIO
	}, testTimeout, time.Millisecond)
	t.Cleanup(func() { end.Close() })
	return end
}

// TestSignalEndsABlockedReadOfTheRules: the rules are read from a pipe without a writer.
func TestSignalEndsABlockedReadOfTheRules(t *testing.T) {
	for _, flag := range [...]string{"--config", "--token-file"} {
		for _, sig := range [...]os.Signal{os.Interrupt, syscall.SIGTERM} {
			path := clitest.Fifo(t)
			args := []string{flag, path}
			if flag != "--config" {
				args = append(args, "--limit", "gcra 1/s", "--api", "127.0.0.1:0")
			}
			s := startServe(t, args...)
			awaited(t, path)
			s.signal(sig)
			s.waitForLog("sluice: interrupted")
			require.Equal(t, cli.ExitFailed, s.exitCode())
		}
	}
}

// TestSignalEndsTheWaitForASilentStore: the store accepts connections, but never answers.
func TestSignalEndsTheWaitForASilentStore(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	for _, sig := range [...]os.Signal{os.Interrupt, syscall.SIGTERM} {
		s := startServe(t, "--limit", "gcra 1/s", "--api", "127.0.0.1:0", "--store", "redis://"+silent.Addr().String()+"?read_timeout=1h")
		conn, err := silent.Accept()
		require.NoError(t, err)
		defer conn.Close()
		s.signal(sig)
		s.waitForLog("sluice: interrupted")
		require.Equal(t, cli.ExitFailed, s.exitCode())
	}
}

// TestReloadsRunOneAfterTheOther: each reload takes some time. Then a signal ends the program
// during a reload.
func TestReloadsRunOneAfterTheOther(t *testing.T) {
	rules := "rules: [{name: client, policy: gcra %d/h, by: ip}]\n"
	file, pipe := clitest.Write(t, "limits.yaml", fmt.Sprintf(rules, 2)), clitest.Fifo(t)
	s := startServe(t, "--config", file, "--upstream", upstream(t, nothing), "--listen", "127.0.0.1:0")
	url := s.waitForLog(`msg=serving .*proxy=(\S+)`)
	require.NoError(t, os.Rename(pipe, file))
	s.signal(syscall.SIGHUP)
	for i := range 3 {
		end := awaited(t, file)
		s.signal(syscall.SIGHUP) // amid the reload before
		_, err := io.WriteString(end, fmt.Sprintf(rules, i+1))
		require.NoError(t, err)
		require.NoError(t, end.Close())
		s.waitForLog("msg=reloaded")
		require.Equal(t, 200, status(t, url), "one more than were used")
		require.Equal(t, 429, status(t, url))
	}
	awaited(t, file)
	s.signal(syscall.SIGTERM)
	s.waitForLog(`msg="shut down" cut=false`)
	require.Zero(t, s.exitCode())
}

// TestManySignalsEndServeOnce: further signals must not turn a clean end into a failure. An idle
// connection delays the end until they arrive.
func TestManySignalsEndServeOnce(t *testing.T) {
	s := startServe(t, "--limit", "gcra 1/s", "--upstream", upstream(t, nothing), "--listen", "127.0.0.1:0")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.waitForLog(`msg=serving .*proxy=(\S+)`), "http://"))
	require.NoError(t, err)
	defer conn.Close()
	s.signal(syscall.SIGTERM)
	s.signal(os.Interrupt)
	gone := make(chan struct{})
	var signals sync.WaitGroup
	signals.Go(func() {
		for {
			select {
			case <-gone:
				return
			default:
				_ = s.Process.Signal(syscall.SIGTERM) // it may be gone
			}
		}
	})
	s.waitForLog(`msg="shut down" cut=false`)
	exitCode := s.exitCode()
	close(gone)
	signals.Wait()
	require.Zero(t, exitCode)
}

// TestShutdownDelay: after SIGTERM, /readyz fails, and the program still serves new connections until the delay is over or a
// second signal arrives. After an interrupt there is no delay.
func TestShutdownDelay(t *testing.T) {
	for _, sig := range [...]os.Signal{syscall.SIGTERM, os.Interrupt} {
		s := startServe(t, "--limit", "gcra 100/s", "--upstream", upstream(t, nothing), "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0", "--shutdown-delay", "1h")
		urls := strings.Fields(s.waitForLog(`msg=serving .*proxy=(\S+ upstream=\S+ api=\S+)`))
		proxy, api := urls[0], strings.TrimPrefix(urls[2], "api=")
		require.Equal(t, 200, status(t, api+"/readyz"))
		s.signal(sig)
		if sig == syscall.SIGTERM {
			s.waitForLog(`msg="shutting down" delay=1h0m0s`)
			require.Equal(t, 503, status(t, api+"/readyz"))
			require.Equal(t, 200, status(t, api+"/livez"))
			require.Equal(t, 200, status(t, proxy))
			s.signal(sig)
		}
		s.waitForLog(`msg="shut down" cut=false`)
		require.Zero(t, s.exitCode())
	}
}

// TestInvalidResponsesAreNotLogged: parts of a response may be secrets. net/http writes
// unsolicited responses to package log.
func TestInvalidResponsesAreNotLogged(t *testing.T) {
	talkative := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nSet-Cookie: TOPSECRET\r\n\r\n")
			conn.Close()
		}
	}
	s := startServe(t, "--limit", "gcra 100/m", "--upstream", upstream(t, talkative), "--listen", "127.0.0.1:0", "--log-format", "json")
	require.Equal(t, 200, status(t, s.waitForLog(`"msg":"serving".*"proxy":"([^"]+)"`)))
	s.waitForLog(`"level":"WARN","msg":"message from a library","error":"Unsolicited response received on idle HTTP channel`)
	s.signal(syscall.SIGTERM)
	s.waitForLog("shut down")
	require.Zero(t, s.exitCode())
	for _, line := range s.logLines {
		require.True(t, json.Valid([]byte(line)), line)
		require.NotContains(t, line, "TOPSECRET")
	}
}

// TestServeOutlivesTheReaderOfItsLog: the log can be a pipe to a program that ends.
func TestServeOutlivesTheReaderOfItsLog(t *testing.T) {
	s := startServe(t, "--limit", "gcra 100/m", "--upstream", upstream(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "--listen", "127.0.0.1:0")
	url := s.waitForLog(`msg=serving .*proxy=(\S+)`)
	require.NoError(t, s.log.Close())
	for range 2 {
		require.Equal(t, 502, status(t, url), "it logs the failure before the response")
	}
	s.signal(syscall.SIGTERM)
	require.Zero(t, s.exitCode())
}
