package serve

import (
	"errors"
	"net"
	"sync"
)

// DefaultMaxConnections suits a small machine. Each connection may need two open files, its own
// and one to the upstream.
const DefaultMaxConnections = 10_000

// maxConnections is a listener that limits the number of open connections, as
// golang.org/x/net/netutil.LimitListener does. Further connections wait in the kernel's queue.
// When the queue is full, their clients retry.
type maxConnections struct {
	net.Listener
	slots     chan struct{}   // one for each open connection, and one for the next
	isFull    func(full bool) // called with true when Accept begins to wait, and with false at the end of the wait
	closed    chan struct{}
	closeOnce sync.Once
}

func limitConnections(l net.Listener, limit int, isFull func(full bool)) net.Listener {
	if limit == 0 {
		return l
	}
	return &maxConnections{Listener: l, slots: make(chan struct{}, limit), isFull: isFull, closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *maxConnections) Accept() (net.Conn, error) {
	if !l.acquire() {
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		l.release()
		return nil, err
	}
	return &countedConn{Conn: conn, release: sync.OnceFunc(l.release)}, nil
}

func (l *maxConnections) acquire() bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
	}
	l.isFull(true)
	defer l.isFull(false)
	select {
	case l.slots <- struct{}{}:
		return true
	case <-l.closed:
		return false
	}
}

func (l *maxConnections) release() { <-l.slots }

// Close implements net.Listener.
func (l *maxConnections) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// countedConn releases its slot when it is closed.
type countedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite lets net/http close a connection without a reset.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
