package frontdoor

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A program is a sluice that serves.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   *book
	ended chan struct{}
	proxy string // URLs; empty where it does not listen
	api   string
}

// serve starts "sluice serve", and returns when it listens. Wherever it is not told
// otherwise it takes free ports, and has time: how fast the machine is, is not tested.
func serve(t *testing.T, args ...string) *program {
	t.Helper()
	p := launch(t, args...)
	p.says("msg=serving")
	p.proxy, p.api = p.found(`proxy=(\S+)`), p.found(`api=(\S+)`)
	return p
}

func launch(t *testing.T, args ...string) *program {
	t.Helper()
	given := strings.Join(args, " ")
	for _, flag := range [...]string{"--listen 127.0.0.1:0", "--api 127.0.0.1:0", "--decision-timeout 30s", "--shutdown-delay 0s"} {
		name, value, _ := strings.Cut(flag, " ")
		if !strings.Contains(given, name+" ") {
			args = append(args, name, value)
		}
	}
	p := &program{t: t, cmd: exec.Command(binary, append([]string{"serve"}, args...)...), log: new(book), ended: make(chan struct{})}
	p.cmd.Stderr = p.log
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the exit code tells
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", p.cmd, p.log)
		}
	})
	return p
}

// says waits until the log has a text.
func (p *program) says(text string) {
	p.t.Helper()
	p.saysTimes(text, 1)
}

func (p *program) saysTimes(text string, times int) {
	p.t.Helper()
	late := time.Now().Add(testTimeout)
	for strings.Count(p.log.String(), text) < times {
		select {
		case <-p.ended:
			require.GreaterOrEqual(p.t, strings.Count(p.log.String(), text), times, "it ended without %q", text)
			return
		case <-time.After(2 * time.Millisecond):
			require.True(p.t, time.Now().Before(late), "%q is not said %d times", text, times)
		}
	}
}

func (p *program) found(pattern string) string {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(p.log.String()); m != nil {
		return m[1]
	}
	return ""
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// kill ends it with SIGKILL.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// code waits for its end.
func (p *program) code() int {
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

// A book is written by one and read by another.
type book struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is all that was written.
func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// place is an address that is free, and that stays so when who listens there is
// killed: its port is below those that connections get for their own end.
func place(t *testing.T) string {
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
