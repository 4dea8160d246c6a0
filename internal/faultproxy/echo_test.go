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

// lines is the least protocol there is: one line is answered by one line.
type lines struct{}

func (lines) request(r *bufio.Reader) ([]byte, bool, error) {
	line, err := r.ReadBytes('\n')
	return line, true, err
}

func (lines) reply(r *bufio.Reader) ([]byte, bool, error) {
	line, err := r.ReadBytes('\n')
	return line, true, err
}

// echo answers every line with itself, and remembers it.
type echo struct {
	listener net.Listener
	mu       sync.Mutex
	heard    []string
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
		e.heard = append(e.heard, strings.TrimSpace(line))
		e.mu.Unlock()
		fmt.Fprint(conn, line)
	}
}

func (e *echo) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.heard...)
}

// setUp starts an echo and a proxy in front of it. The proxy ends first.
func setUp(t *testing.T) (*echo, *Proxy) {
	t.Helper()
	e := newEcho(t)
	return e, start(t, e.listener.Addr().String(), func() framing { return lines{} })
}

// client speaks lines.
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

func (c client) say(t *testing.T, text string) {
	t.Helper()
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
}

// hear reads a line, for a moment if nothing is expected and else for long.
func (c client) hear(patience time.Duration) (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	return c.reader.ReadString('\n')
}

const (
	moment = 50 * time.Millisecond
	long   = 20 * time.Second
)
