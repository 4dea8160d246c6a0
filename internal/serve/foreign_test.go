package serve

import (
	"bufio"
	"bytes"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// sends is an upstream that answers each connection's first request with a text.
func sends(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					io.WriteString(conn, text)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// TestNothingOfAResponseIsLogged that is none.
func TestNothingOfAResponseIsLogged(t *testing.T) {
	for _, response := range []string{
		"TOPSECRET\r\n\r\n",
		"HTTP/1.1 TOPSECRET\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTOPSECRET\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: TOPSECRET\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: TOPSECRET\r\n\r\n",
	} {
		w := started(t, oneByIP, at(t, sends(t, response)))
		require.Equal(t, http.StatusBadGateway, fetch(t, w.proxyURL("/")).StatusCode, response)
		require.Contains(t, w.logged.String(), "the upstream failed")
		require.NotContains(t, w.logged.String(), "TOPSECRET")
	}
}

// TestUnquoted has the texts of older net/http too, and such as end amid a quotation.
func TestUnquoted(t *testing.T) {
	for text, want := range map[string]string{
		`plain: no secret`:      `plain: no secret`,
		`x "TOP" y "a \" b" z`:  `x ... y ... z`,
		`x "TOP`:                `x ...`,
		`x "TOP\`:               `x ...`,
		`x "TOP\\`:              `x ...`,
		"x \"TOP\\\nSECRET\" y": `x ... y`,
		"x \"TOP\nSECRET\" y":   `x ... y`,
		"net/http: malformed MIME header initial line: TOP: SECRET": "net/http: malformed MIME header initial line: ...",
		"malformed MIME header line: TOP\nSECRET":                   "malformed MIME header line: ...",
		`malformed MIME header: missing colon: "TOPSECRET"`:         "malformed MIME header: ...",
	} {
		require.Equal(t, want, unquoted(text))
	}
}

func TestTheStandardLogIsTakenAndGivenBack(t *testing.T) {
	var logged lines
	before, flags := stdlog.Writer(), stdlog.Flags()
	release := TakeStandardLog(slog.New(slog.NewTextHandler(&logged, nil)))
	stdlog.Printf("got %q; %q and %s", `a "secret"`, "another", `"a third`)
	require.Contains(t, logged.String(), `level=WARN msg="a library complains" error="got ...; ... and ..."`)
	for range 100 {
		stdlog.Print("the same")
	}
	require.Equal(t, 3, bytes.Count([]byte(logged.String()), []byte("complains")), "nobody can fill the log")
	release()
	require.Equal(t, before, stdlog.Writer())
	require.Equal(t, flags, stdlog.Flags())
}
