package serve

import (
	"context"
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
	slots  chan struct{}   // one for each open connection, and one for the next
	isFull func(full bool) // called with true when Accept begins to wait, and with false at the end of the wait
	closed context.Context
	close  context.CancelFunc
}

func limitConnections(l net.Listener, limit int, isFull func(full bool)) net.Listener {
	if limit == 0 {
		return l
	}
	closed, close := context.WithCancel(context.Background())
	return &maxConnections{l, make(chan struct{}, limit), isFull, closed, close}
}

// Accept implements net.Listener.
func (l *maxConnections) Accept() (net.Conn, error) {
	if !l.acquire() {
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &countedConn{conn.(halfCloser), sync.OnceFunc(func() { <-l.slots })}, nil
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
	case <-l.closed.Done():
		return false
	}
}

// Close implements net.Listener.
func (l *maxConnections) Close() error {
	l.close()
	return l.Listener.Close()
}

// countedConn releases its slot when it is closed.
type countedConn struct {
	halfCloser
	release func()
}

// halfCloser is a TCP or a unix connection. CloseWrite lets net/http close it without a reset.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.release()
	return c.halfCloser.Close()
}
