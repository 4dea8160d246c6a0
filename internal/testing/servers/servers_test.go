// The test promises that no server remains after a test binary that dies.
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

func dial(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		conn.Close()
	}
	return err
}
