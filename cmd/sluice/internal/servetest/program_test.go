package servetest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testTimeout is the longest time that a test waits. A test that passes waits less.
const testTimeout = 90 * time.Second

// binary is the path of the program, which is not built with -short. It is built once, without the race
// detector, because the tests measure its memory.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "servetest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "sluice")
	build := exec.Command("go", "build", "-o", binary, "../..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// program is a running "sluice serve".
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   *logBuffer
	ended chan struct{}
	proxy string // its URL; "" if there is none
	api   string
}

// serve starts "sluice serve" and returns when it listens. Unless args say otherwise, it listens on
// free ports, and a decision may take long, because the tests do not measure the speed of the machine.
func serve(t *testing.T, args ...string) *program {
	t.Helper()
	p := start(t, args...)
	p.waitForLog("msg=serving")
	p.proxy, p.api = p.fromLog(`proxy=(\S+)`), p.fromLog(`api=(\S+)`)
	return p
}

// start starts "sluice serve". With -short, it skips the test.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	if testing.Short() {
		t.Skip("-short skips tests that build the program")
	}
	given := strings.Join(args, " ")
	for _, flag := range [...]string{"--listen 127.0.0.1:0", "--api 127.0.0.1:0", "--decision-timeout 30s", "--shutdown-delay 0s"} {
		name, value, _ := strings.Cut(flag, " ")
		if !strings.Contains(given, name+" ") {
			args = append(args, name, value)
		}
	}
	p := &program{t: t, cmd: exec.Command(binary, append([]string{"serve"}, args...)...), log: new(logBuffer), ended: make(chan struct{})}
	p.cmd.Stderr = p.log
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // exitCode returns the result
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.cmd, p.log)
		}
	})
	return p
}

// waitForLog waits until the log contains a text.
func (p *program) waitForLog(text string) {
	p.t.Helper()
	p.waitForLogTimes(text, 1)
}

func (p *program) waitForLogTimes(text string, times int) {
	p.t.Helper()
	deadline := time.Now().Add(testTimeout)
	for strings.Count(p.log.String(), text) < times {
		select {
		case <-p.ended:
			require.GreaterOrEqual(p.t, strings.Count(p.log.String(), text), times, "the program ended without %q in its log", text)
			return
		case <-time.After(2 * time.Millisecond):
			require.True(p.t, time.Now().Before(deadline), "the log does not contain %q %d times", text, times)
		}
	}
}

// fromLog returns the first group of the first match in the log, or "".
func (p *program) fromLog(pattern string) string {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(p.log.String()); m != nil {
		return m[1]
	}
	return ""
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// kill ends the program with SIGKILL.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// exitCode waits until the program has ended.
func (p *program) exitCode() int {
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

// logBuffer collects the output of a program. Tests read it while the program writes.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns everything that was written.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// freeAddress returns an address that nobody listens on. Its port is below those that the system gives
// to outgoing connections, so it stays free after the program was killed.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if l, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}
