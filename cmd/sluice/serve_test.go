package main

import (
	"bufio"
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
	const limit = "--limit=gcra 1/s"
	short := clitest.Write(t, "token", "short\n")
	spaced := clitest.Write(t, "token", "with a space, and long\n")
	faulty := clitest.Write(t, "limits.yaml", "rules: [{name: a, policy: gcar 1/s}]")
	for _, c := range []struct {
		exitCode int
		want     string // of the one line
		args     []string
	}{
		{2, `no rules; want --limit "gcra 100/m burst=20", or --config limits.yaml`, nil},
		{2, `serve takes no argument "x"; to name the program behind the proxy, use --upstream`, []string{"x"}},
		{2, "unknown flag: --upstraem, did you mean --upstream?; see sluice serve --help", []string{"--upstraem", "x"}},
		{2, "did you mean gcra?", []string{"--limit", "gcar 1/s"}},
		{2, `--limit "gcra 1/s cost=1": --limit takes no cost=; write a limits.yaml with the field cost beside policy, and use --config`, []string{"--limit", "gcra 1/s cost=1"}},
		{2, "--limit and --config exclude each other", []string{limit, "--config", faulty}},
		{2, "--limit is empty", []string{"--limit", ""}},
		{2, `for "--limit" flag: the flag is given twice; give it once; see sluice serve --help`, []string{limit, limit}},
		{2, "--by needs --limit; with --config, set it in the file", []string{"--config", faulty, "--by", "ip"}},
		{2, "--trust needs --limit", []string{"--config", faulty, "--trust", "10.0.0.0/8"}},
		{2, `no file "missing"`, []string{"--config", "missing"}},
		{2, "--config -: sluice serve reads the rules again on SIGHUP, which standard input does not allow; name a file", []string{"--config", "-"}},
		{1, `limits.yaml:1: rules[0].policy: `, []string{"--config", faulty}},
		{2, `--by: no field "nobody"`, []string{limit, "--by", "nobody"}},
		{2, `--trust: "10.0.0.0/99" is not an address or prefix`, []string{limit, "--trust", "10.0.0.0/99"}},
		{2, "--trust is empty; want the addresses of your own proxies", []string{limit, "--upstream", "http://h", "--trust", ""}},
		{2, "--trust needs --upstream", []string{limit, "--trust", "10.0.0.0/8"}},
		{2, "--upstream: invalid port 99999; want 1 to 65535", []string{limit, "--upstream", "http://h:99999"}},
		{2, `--upstream "localhost:3000": the URL has no scheme; want http:// or https:// in front`, []string{limit, "--upstream", "localhost:3000"}},
		{2, `--upstream "ftp://x": the scheme is not supported; want http or https`, []string{limit, "--upstream", "ftp://x"}},
		{2, "--upstream: want only", []string{limit, "--upstream", "http://u:secret@h"}},
		{2, "--upstream http://localhost:8080 is the address of --listen 127.0.0.1:8080", []string{limit, "--upstream", "http://localhost:8080"}},
		{2, "--listen needs --upstream", []string{limit, "--listen", ":8080"}},
		{2, "--listen \"8080\": want HOST:PORT or :PORT\n", []string{limit, "--upstream", "http://h", "--listen", "8080"}},
		{2, "--listen unix:x: a unix socket has no client address", []string{limit, "--upstream", "http://h", "--listen", "unix:x"}},
		{1, "--listen 192.0.2.1:80: ", []string{limit, "--upstream", "http://192.0.2.2", "--listen", "192.0.2.1:80"}},
		{2, "want --token-file", []string{limit, "--api", ":8081"}},
		{2, "--api 127.0.0.1:8080: --listen 127.0.0.1:8080 uses that port; use another port", []string{limit, "--upstream", "http://h", "--api", "127.0.0.1:8080"}},
		{2, "--token-file needs --api", []string{limit, "--upstream", "http://h", "--token-file", short}},
		{2, "the token has 5 characters; want at least 16", []string{limit, "--token-file", short}},
		{2, "want one token of printable ASCII", []string{limit, "--token-file", spaced}},
		{2, "--token-file /dev/zero: the file has more than 4096 bytes; want one token", []string{limit, "--token-file", "/dev/zero"}},
		{2, `--token-file: no file "missing"; name a file with one token, for instance from openssl rand -hex 32`, []string{limit, "--token-file", "missing"}},
		{2, "--store mysql://u:xxxxx@h: want memory:, sqlite:FILE", []string{limit, "--store", "mysql://u:secret@h"}},
		{1, "--store sqlite:missing/x.db: ", []string{limit, "--store", "sqlite:missing/x.db"}},
		{2, "--max-keys is for the store memory:", []string{limit, "--store", "sqlite:x.db", "--max-keys", "1"}},
		{2, "want at most 9223372036854775807", []string{limit, "--max-keys", "99999999999999999999"}},
		{2, "--max-keys 0: want at least 1", []string{limit, "--max-keys", "0"}},
		{2, `--on-failure "maybe": want closed, open or local`, []string{limit, "--on-failure", "maybe"}},
		{2, "--decision-timeout 0s: ", []string{limit, "--decision-timeout", "0s"}},
		{2, "--decision-timeout 11m: want at most 10m, such as 1s", []string{limit, "--decision-timeout", "11m"}},
		{2, "--client-timeout 300000h: want 1s to 24h, such as 1m, or 0s for never", []string{limit, "--upstream", "http://h", "--client-timeout", "300000h"}},
		{2, "--body-grace 0s: want 1s to 24h, such as 10s; to allow any rate, want --min-body-rate 0", []string{limit, "--upstream", "http://h", "--body-grace", "0s"}},
		{2, `--log-level "loud": want debug, info, warn or error`, []string{limit, "--log-level", "loud"}},
		{2, `--log-format "xml": want text or json`, []string{limit, "--log-format", "xml"}},
	} {
		exitCode, out, errs := clitest.Execute(t, "", append([]string{"serve"}, c.args...)...)
		require.Equal(t, c.exitCode, exitCode, "%q: %s", c.args, errs)
		require.Contains(t, errs, c.want)
		require.Empty(t, out)
		require.NotContains(t, errs, "secret")
		if c.exitCode == cli.ExitUsage {
			require.Equal(t, 1, strings.Count(errs, "\n"), errs)
		}
	}
}

// TestStoreAddressFromTheEnvironment: unlike a flag, the environment does not show the password
// in process lists.
func TestStoreAddressFromTheEnvironment(t *testing.T) {
	fromEnvironment := "sqlite:" + filepath.Join(t.TempDir(), "environment.db")
	fromFlag := "sqlite:" + filepath.Join(t.TempDir(), "flag.db")
	t.Setenv("SLUICE_STORE", fromEnvironment)
	for _, c := range []struct {
		args  []string
		store string
	}{
		{[]string{"--limit=gcra 1/s"}, fromEnvironment},
		{[]string{"--limit=gcra 1/s", "--store=" + fromFlag}, fromFlag},
	} {
		s := startServe(t, append(c.args, "--api=127.0.0.1:0")...)
		s.waitForLog(`msg=serving .*store=` + c.store + ` `)
		s.signal(os.Interrupt)
		require.Zero(t, s.exitCode())
	}
	_, help, _ := clitest.Execute(t, "", "serve", "--help")
	require.Contains(t, help, "SLUICE_STORE")
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

// TestFailurePoliciesByFlag: the store cannot be reached, and --on-failure decides about 3 requests a day.
func TestFailurePoliciesByFlag(t *testing.T) {
	store := "redis://" + refusing(t)
	for policy, last := range map[string]int{"open": 200, "local": 429} {
		s := startServe(t, "--limit", "fixedwindow 3/24h", "--store", store, "--on-failure", policy, "--upstream", upstream(t, nothing), "--listen", "127.0.0.1:0")
		url := s.waitForLog(`msg=serving .*proxy=(\S+)`)
		for _, want := range []int{200, 200, 200, last} {
			require.Equal(t, want, status(t, url), policy)
		}
	}
	exitCode, _, errs := clitest.Execute(t, "", "serve", "--limit", "gcra 1/s", "--store", store, "--on-failure", "closed")
	require.Equal(t, cli.ExitFailed, exitCode)
	require.Contains(t, errs, "--store redis://")
}

// refusing is an address where nobody listens.
func refusing(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
