package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

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
