// These tests promise that nothing of a server remains after a test or after a test binary that dies, and
// that a missing program skips or fails a test.
package servers

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const panicVariable = "SLUICE_START_SERVER_AND_PANIC"

func TestMain(m *testing.M) {
	if os.Getenv(panicVariable) != "" {
		startServerAndPanic()
	}
	m.Run()
}

// startServerAndPanic simulates a test binary that panics outside of its tests.
func startServerAndPanic() {
	var s RedisServer
	if err := s.create(nil); err != nil {
		panic(err)
	}
	fmt.Println(s.Addr(), s.dir)
	go panic("in a test")
	select {}
}

func TestServersDieWithTheTestBinary(t *testing.T) {
	need(t, RedisPrograms)
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux, servers end with the test binary")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), panicVariable+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.Error(t, cmd.Run())
	require.Contains(t, stderr.String(), "panic: in a test")

	addr, dir, _ := strings.Cut(strings.TrimSpace(stdout.String()), " ")
	defer os.RemoveAll(dir)
	require.NotEmpty(t, addr)
	require.NoError(t, waitUntil("the server has ended", func() bool { return errors.Is(dial(addr), syscall.ECONNREFUSED) }))
}

func TestServerIsRemovedAfterItsTest(t *testing.T) {
	need(t, RedisPrograms)
	var dir, addr string
	t.Run("a test with a server", func(t *testing.T) {
		s := Redis(t)
		dir, addr = s.dir, s.Addr()
		require.NoError(t, dial(addr))
	})
	require.ErrorIs(t, dial(addr), syscall.ECONNREFUSED)
	require.NoDirExists(t, dir)
}

func dial(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		conn.Close()
	}
	return err
}

// fakeT records a skip or a failure.
type fakeT struct {
	testing.TB
	result string
}

func (w *fakeT) Helper()           {}
func (w *fakeT) Skip(args ...any)  { w.result = "skip: " + fmt.Sprint(args...) }
func (w *fakeT) Fatal(args ...any) { w.result = "fatal: " + fmt.Sprint(args...) }

func TestMissingProgramSkipsUnlessRequired(t *testing.T) {
	if testing.Short() {
		t.Skip("tests with servers do not run with -short")
	}
	const line = "no-such-server is missing; scripts/test.sh installs it, or on Debian: apt-get install no-such-server"
	for required, result := range map[string]string{"": "skip: " + line, "1": "fatal: " + line} {
		t.Setenv("SLUICE_REQUIRE_SERVERS", required)
		w := &fakeT{}
		need(w, "no-such-server")
		require.Equal(t, result, w.result)
	}
}
