package faultproxy

import (
	"bufio"
	"io"
	"net"
	"sync"
)

// framing cuts the two streams of one connection into messages. Its methods are
// called by one goroutine each.
type framing interface {
	// request reads what the client sends next, up to where the server acts on
	// it. Counts tells whether this is a request, to which a reply will end.
	request(*bufio.Reader) (message []byte, counts bool, err error)

	// reply reads what the server sends next. Ends tells whether with it the
	// reply to the oldest request is complete.
	reply(*bufio.Reader) (message []byte, ends bool, err error)
}

// A conn is a client's connection and the one to the server that belongs to it.
type conn struct {
	proxy          *Proxy
	client, server net.Conn
	framing        framing
	gone           chan struct{} // closed with the connection
	closing        sync.Once

	mu       sync.Mutex
	waiting  []Fault       // of the requests that were forwarded and await their reply, in order
	answered chan struct{} // has an element after a reply
}

func newConn(p *Proxy, client, server net.Conn) *conn {
	return &conn{
		proxy: p, client: client, server: server, framing: p.framing(),
		gone: make(chan struct{}), answered: make(chan struct{}, 1),
	}
}

func (c *conn) close() {
	c.closing.Do(func() {
		close(c.gone)
		c.client.Close()
		c.server.Close()
	})
}

// reset closes the client's connection with a RST instead of a FIN.
func (c *conn) reset() {
	if tcp, ok := c.client.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails on a closed connection only
	}
	c.close()
}

// requests forwards from the client to the server.
func (c *conn) requests() {
	defer c.close()
	r := bufio.NewReader(c.client)
	for {
		message, counts, err := c.framing.request(r)
		if err != nil {
			return
		}
		var fault Fault
		if counts {
			fault = c.proxy.number(message)
		}
		if fault.Kind.onRequest() {
			c.strikeRequest(r, message, fault)
			return
		}
		if c.send(message, counts, fault) != nil {
			return
		}
		if fault.Kind != None && fault.Kind != StallReply {
			c.swallow(r)
			return
		}
	}
}

func (c *conn) send(message []byte, counts bool, fault Fault) error {
	if counts {
		c.await(fault)
	}
	_, err := c.server.Write(message)
	return err
}

// swallow reads until the client has hung up, or this side has.
func (c *conn) swallow(r io.Reader) { _, _ = io.Copy(io.Discard, r) }

func (c *conn) strikeRequest(r io.Reader, message []byte, fault Fault) {
	c.drain()
	if fault.Kind != LateRequest {
		c.proxy.hit(fault)
	}
	switch fault.Kind {
	case ResetRequest:
		c.reset()
	case StallRequest:
		c.swallow(r)
	case LateRequest:
		c.hold(r)
		if c.send(message, true, fault) == nil {
			c.drain()
		}
	}
}

// hold waits for Release, or until the client has hung up.
func (c *conn) hold(r io.Reader) {
	left := make(chan struct{})
	c.proxy.running.Go(func() {
		defer close(left)
		c.swallow(r)
	})
	select {
	case <-left:
	case <-c.proxy.released():
	}
}

// replies forwards from the server to the client.
func (c *conn) replies() {
	defer c.close()
	r := bufio.NewReader(c.server)
	var held []byte // of a reply that is to be damaged once it is complete
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
		if fault.Kind != None && !c.strikeReply(held, fault) {
			return
		}
		held = nil
		c.answer()
	}
}

// strikeReply tells whether the connection goes on.
func (c *conn) strikeReply(reply []byte, fault Fault) bool {
	c.proxy.hit(fault)
	switch fault.Kind {
	case LateRequest:
		return true // nobody is there to hear
	case ResetReply:
		c.reset()
	case CutReply:
		_, _ = c.client.Write(reply[:len(reply)/2])
	case StallReply:
		select {
		case <-c.gone:
		case <-c.proxy.released():
			_, err := c.client.Write(reply)
			return err == nil
		}
	}
	return false
}

func (c *conn) await(fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, fault)
}

// oldest is the fault of the request that is answered next. A server also speaks
// unasked, as when it shuts down.
func (c *conn) oldest() Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return Fault{}
	}
	return c.waiting[0]
}

func (c *conn) answer() {
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

// drain waits until all that was forwarded is answered.
func (c *conn) drain() {
	for c.awaits() {
		select {
		case <-c.answered:
		case <-c.gone:
			return
		}
	}
}

func (c *conn) awaits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) > 0
}
