package main

import (
	"encoding/json"
	"io"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

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
