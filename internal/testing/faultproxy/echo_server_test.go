// The tests promise that each fault happens once, at the planned exchange; that the server gets a request
// exactly if Kind.Applied reports so; and that all other messages are forwarded unchanged.
package faultproxy

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lines is a protocol in which requests and replies are one line each.
type lines struct{ clientGone chan struct{} } // closed after the last request, if it is not nil

func (l lines) request(r *bufio.Reader) ([]byte, bool, error) {
	line, err := r.ReadBytes('\n')
	if err != nil && l.clientGone != nil {
		close(l.clientGone)
	}
	return line, true, err
}

func (lines) reply(r *bufio.Reader) ([]byte, bool, error) {
	line, err := r.ReadBytes('\n')
	return line, true, err
}

// echo returns each line and records it.
type echo struct {
	listener net.Listener
	mu       sync.Mutex
	received []string
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{listener: listener}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		e.mu.Lock()
		e.received = append(e.received, strings.TrimSpace(line))
		e.mu.Unlock()
		fmt.Fprint(conn, line)
	}
}

func (e *echo) lines() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.received...)
}

// setUp starts an echo server and its proxy. The proxy ends first.
func setUp(t *testing.T) (*echo, *Proxy) {
	t.Helper()
	e := newEcho(t)
	return e, start(t, e.listener.Addr().String(), func() framing { return lines{} })
}

// client is a client for lines.
type client struct {
	net.Conn
	reader *bufio.Reader
}

func dial(t *testing.T, p *Proxy) client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return client{conn, bufio.NewReader(conn)}
}

func (c client) send(t *testing.T, text string) {
	t.Helper()
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
}

// receive reads a line.
func (c client) receive(timeout time.Duration) (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	return c.reader.ReadString('\n')
}

const (
	shortTimeout = 50 * time.Millisecond // if no line is expected
	longTimeout  = 20 * time.Second
)
