package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKilledServerStartsAgainOnItsPort(t *testing.T) {
	s := Redis(t)
	addr := s.Addr()
	s.Kill()
	require.ErrorIs(t, dial(addr), syscall.ECONNREFUSED)
	s.Kill()
	s.Pause()
	s.Resume()
	s.Stop()

	require.NoError(t, s.Start())
	require.NoError(t, dial(addr))
	require.NoError(t, s.Start(), "Start does nothing if the server runs")
	require.Equal(t, addr, s.Addr())
}

func TestPausedServerAcceptsAndDoesNotAnswer(t *testing.T) {
	s := Redis(t)
	s.Pause()
	conn, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "PING\r\n")

	reply := make([]byte, len("+PONG\r\n"))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = conn.Read(reply)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	s.Resume()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(maxWait)))
	_, err = conn.Read(reply)
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", string(reply))
}

func TestPausedServerCanBeStoppedAndKilled(t *testing.T) {
	s := Redis(t)
	for _, end := range []func(){s.Stop, s.Kill} {
		s.Pause()
		end()
		require.ErrorIs(t, dial(s.Addr()), syscall.ECONNREFUSED)
		require.NoError(t, s.Start())
	}
}

func TestPortInUseIsDetected(t *testing.T) {
	redis, postgres, bouncer := Redis(t), shared.Postgres(t), PgBouncer(t, shared.Postgres(t))
	for _, s := range []*Process{&redis.Process, &postgres.Process, &bouncer.Process} {
		s.Stop()
		listener, err := net.Listen("tcp", s.Addr())
		require.NoError(t, err)
		err = s.start()
		require.True(t, isPortInUse(err), err)

		time.AfterFunc(100*time.Millisecond, func() { listener.Close() })
		require.NoError(t, s.Start(), "Start waits for the port")
	}
}

func TestAnotherPortIsTried(t *testing.T) {
	need(t, RedisPrograms)
	var p Process
	ports := map[int]bool{}
	err := p.create("redis-server", "", func() error {
		if ports[p.port] = true; len(ports) < 3 {
			return errors.New("bind: Address already in use")
		}
		return errors.New("out of memory")
	})
	require.EqualError(t, err, "out of memory")
	require.Len(t, ports, 3)
}

func TestServerIsRemovedAfterItsTest(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips tests that start a server")
	}
	var dir, addr string
	t.Run("a test with a server", func(t *testing.T) {
		s := Redis(t)
		dir, addr = s.dir, s.Addr()
		require.NoError(t, dial(addr))
	})
	require.ErrorIs(t, dial(addr), syscall.ECONNREFUSED)
	require.NoDirExists(t, dir)
}

func TestFailedStartShowsTheLogAndRemovesTheDirectory(t *testing.T) {
	need(t, PostgresPrograms)
	before := dirs(t)
	err := new(RedisServer).create([]string{"no-such-setting 1"})
	require.ErrorContains(t, err, "redis-server ended during its start")
	require.ErrorContains(t, err, "no-such-setting")
	err = new(PostgresServer).create([]string{"no_such_setting = 1"})
	require.ErrorContains(t, err, "no_such_setting")
	require.Subset(t, before, dirs(t))
}

const panicVariable = "SLUICE_START_SERVER_AND_PANIC"

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
	cmd := exec.CommandContext(context.Background(), os.Args[0])
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

// dirs returns the directories of this process's servers.
func dirs(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(fmt.Sprintf("/tmp/sluice-%d-*", os.Getpid()))
	require.NoError(t, err)
	return found
}
