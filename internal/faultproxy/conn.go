package faultproxy

import (
	"bufio"
	"context"
	"io"
	"net"
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
	ctx            context.Context // done when the connection is closed
	cancel         func()
	clientGone     chan struct{} // closed when the client sends no more requests

	sent chan *exchange // the forwarded requests without a reply, in order
	last *exchange      // the last one of them
}

// exchange is a forwarded request and its reply.
type exchange struct {
	fault   Fault
	replied chan struct{} // closed after the reply
}

// maxPipeline is how many requests without a reply the proxy forwards on a connection before it waits.
const maxPipeline = 4096

func newConn(p *Proxy, client, server net.Conn) *conn {
	c := &conn{
		proxy: p, client: client, server: server, framing: p.framing(),
		clientGone: make(chan struct{}), sent: make(chan *exchange, maxPipeline),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

func (c *conn) close() {
	c.cancel()
	c.client.Close()
	c.server.Close()
}

// reset closes the client's connection with a RST instead of a FIN.
func (c *conn) reset() {
	_ = c.client.(*net.TCPConn).SetLinger(0) // it only fails on a closed connection
	c.close()
}

// requests forwards requests to the server.
func (c *conn) requests() {
	defer c.close()
	r := bufio.NewReader(c.client)
	stalls := false
	for {
		message, counts, err := c.framing.request(r)
		if err != nil {
			close(c.clientGone)
			if stalls {
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
		switch fault.Kind {
		case None:
		case StallReply:
			stalls = true
		default:
			discard(r)
			return
		}
	}
}

func (c *conn) send(message []byte, counts bool, fault Fault) error {
	if counts {
		c.last = &exchange{fault, make(chan struct{})}
		select {
		case c.sent <- c.last:
		case <-c.ctx.Done():
		}
	}
	_, err := c.server.Write(message)
	return err
}

// drain waits until all forwarded requests have their replies.
func (c *conn) drain() {
	if c.last != nil {
		select {
		case <-c.last.replied:
		case <-c.ctx.Done():
		}
	}
}

// discard reads until the connection is closed.
func discard(r io.Reader) { _, _ = io.Copy(io.Discard, r) }

func (c *conn) injectRequestFault(r io.Reader, message []byte, fault Fault) {
	c.drain()
	if fault.Kind != LateRequest {
		c.proxy.hit(fault)
	}
	switch fault.Kind {
	case ResetRequest:
		c.reset()
	case StallRequest:
		discard(r)
	case LateRequest:
		c.proxy.running.Go(func() {
			discard(r)
			close(c.clientGone)
		})
		select {
		case <-c.clientGone:
		case <-c.proxy.released():
		}
		if c.send(message, true, fault) == nil {
			c.drain()
		}
	}
}

// replies forwards replies to the client.
func (c *conn) replies() {
	defer c.close()
	r := bufio.NewReader(c.server)
	var oldest *exchange // without a reply; nil if the server sends a message without a request, such as at its shutdown
	var held []byte      // the parts of a reply with a fault
	for {
		message, ends, err := c.framing.reply(r)
		if err != nil {
			return
		}
		if oldest == nil {
			select {
			case oldest = <-c.sent:
			default:
			}
		}
		if oldest == nil || oldest.fault.Kind == None {
			if _, err := c.client.Write(message); err != nil {
				return
			}
		} else if held = append(held, message...); ends && !c.injectReplyFault(held, oldest.fault) {
			return
		}
		if ends && oldest != nil {
			close(oldest.replied)
			oldest, held = nil, nil
		}
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
		case <-c.ctx.Done():
		case <-c.clientGone:
		case <-c.proxy.released():
			_, err := c.client.Write(reply)
			return err == nil
		}
	}
	return false
}
