// The test promises that no server remains after a test binary that dies.
package servers

import (
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
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Contains(t, string(exit.Stderr), "panic: in a test")

	addr, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	defer os.RemoveAll(dir)
	require.NotEmpty(t, addr)
	require.NoError(t, waitUntil("the server has ended", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	}))
}
