package faultproxy

import (
	"bufio"
	"io"
	"net"
	"slices"
	"sync"
)

// framing splits the two streams of a connection into messages. Each method is called by one
// goroutine.
type framing interface {
	// request reads the client's next messages, up to one that the server acts on. counts is whether
	// they are a request, which has a reply.
	request(*bufio.Reader) (message []byte, counts bool, err error)

	// reply reads the server's next message. ends is whether it completes the reply to the oldest
	// request.
	reply(*bufio.Reader) (message []byte, ends bool, err error)
}

// conn is a connection of a client and the corresponding connection to the server.
type conn struct {
	proxy          *Proxy
	client, server net.Conn
	framing        framing
	closed         chan struct{} // closed with the connection
	closing        sync.Once
	clientGone     chan struct{} // closed when the client sends no more requests

	mu       sync.Mutex
	waiting  []Fault       // of the forwarded requests without a reply, in order
	answered chan struct{} // gets a value after each reply
}

func newConn(p *Proxy, client, server net.Conn) *conn {
	return &conn{
		proxy: p, client: client, server: server, framing: p.framing(),
		closed: make(chan struct{}), clientGone: make(chan struct{}), answered: make(chan struct{}, 1),
	}
}

func (c *conn) close() {
	c.closing.Do(func() {
		close(c.closed)
		c.client.Close()
		c.server.Close()
	})
}

// reset closes the client's connection with a RST instead of a FIN.
func (c *conn) reset() {
	if tcp, ok := c.client.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it only fails on a closed connection
	}
	c.close()
}

// requests forwards requests to the server.
func (c *conn) requests() {
	defer c.close()
	r := bufio.NewReader(c.client)
	for {
		message, counts, err := c.framing.request(r)
		if err != nil {
			close(c.clientGone)
			if c.stalls() {
				c.drain() // the server answers before the connection ends, as without the fault
			}
			return
		}
		var fault Fault
		if counts {
			fault = c.proxy.number(message)
		}
		if fault.Kind.onRequest() {
			c.injectRequestFault(r, message, fault)
			return
		}
		if c.send(message, counts, fault) != nil {
			return
		}
		if fault.Kind != None && fault.Kind != StallReply {
			c.discard(r)
			return
		}
	}
}

func (c *conn) send(message []byte, counts bool, fault Fault) error {
	if counts {
		c.addWaiting(fault)
	}
	_, err := c.server.Write(message)
	return err
}

// discard reads until the connection is closed.
func (c *conn) discard(r io.Reader) { _, _ = io.Copy(io.Discard, r) }

func (c *conn) injectRequestFault(r io.Reader, message []byte, fault Fault) {
	c.drain()
	if fault.Kind != LateRequest {
		c.proxy.hit(fault)
	}
	switch fault.Kind {
	case ResetRequest:
		c.reset()
	case StallRequest:
		c.discard(r)
	case LateRequest:
		c.hold(r)
		if c.send(message, true, fault) == nil {
			c.drain()
		}
	}
}

// hold waits for Release, or until the client closes the connection.
func (c *conn) hold(r io.Reader) {
	ended := make(chan struct{})
	c.proxy.running.Go(func() {
		defer close(ended)
		c.discard(r)
	})
	select {
	case <-ended:
	case <-c.proxy.released():
	}
}

// replies forwards replies to the client.
func (c *conn) replies() {
	defer c.close()
	r := bufio.NewReader(c.server)
	var held []byte // the parts of a reply with a fault
	for {
		message, ends, err := c.framing.reply(r)
		if err != nil {
			return
		}
		fault := c.oldest()
		if fault.Kind != None {
			held = append(held, message...)
		} else if _, err := c.client.Write(message); err != nil {
			return
		}
		if !ends {
			continue
		}
		if fault.Kind != None && !c.injectReplyFault(held, fault) {
			return
		}
		held = nil
		c.removeWaiting()
	}
}

// injectReplyFault reports whether the connection stays open.
func (c *conn) injectReplyFault(reply []byte, fault Fault) bool {
	c.proxy.hit(fault)
	switch fault.Kind {
	case LateRequest:
		return true // the client has closed the connection
	case ResetReply:
		c.reset()
	case CutReply:
		_, _ = c.client.Write(reply[:len(reply)/2])
	case StallReply:
		select {
		case <-c.closed:
		case <-c.clientGone:
		case <-c.proxy.released():
			_, err := c.client.Write(reply)
			return err == nil
		}
	}
	return false
}

func (c *conn) addWaiting(fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, fault)
}

// oldest returns the fault of the oldest request without a reply. A server may also send messages
// without a request, for instance at its shutdown.
func (c *conn) oldest() Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return Fault{}
	}
	return c.waiting[0]
}

// stalls reports whether a reply will be held.
func (c *conn) stalls() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.waiting, func(f Fault) bool { return f.Kind == StallReply })
}

func (c *conn) removeWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		c.waiting = c.waiting[1:]
	}
	select {
	case c.answered <- struct{}{}:
	default:
	}
}

// drain waits until all forwarded requests have their replies.
func (c *conn) drain() {
	for c.isWaiting() {
		select {
		case <-c.answered:
		case <-c.closed:
			return
		}
	}
}

func (c *conn) isWaiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) > 0
}
