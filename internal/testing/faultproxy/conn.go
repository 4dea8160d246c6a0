package faultproxy

import (
	"bufio"
	"context"
	"net"
)

// framing splits the two streams of a connection into messages. Each method is called by one
// goroutine.
type framing interface {
	// request reads the client's next messages, up to one that the server acts on. counts is whether
	// they are a request, which has a reply.
	request(*bufio.Reader) (message []byte, counts bool, err error)

	// reply reads the server's next message. ends is whether it completes the reply to a request.
	reply(*bufio.Reader) (message []byte, ends bool, err error)
}

// conn is a connection of a client and the corresponding connection to the server. It forwards a
// request when the reply to the previous one is complete.
type conn struct {
	proxy             *Proxy
	client, server    net.Conn
	requests, replies chan message    // closed when the client or the server sends no more
	clientGone        context.Context // done when the client sends no more
}

// message is what a method of framing returns.
type message struct {
	bytes    []byte
	complete bool // counts, or ends
}

// maxPipeline is how many requests the proxy reads ahead on a connection.
const maxPipeline = 256

// forward forwards messages until one of the connections is closed.
func (p *Proxy) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(p.connected())
	defer cancel()
	context.AfterFunc(ctx, func() {
		client.Close()
		server.Close()
	})
	clientGone, leave := context.WithCancel(ctx)
	c := &conn{p, client, server, make(chan message, maxPipeline), make(chan message, maxPipeline), clientGone}
	framing := p.framing()
	p.running.Go(func() {
		defer leave()
		read(ctx, client, framing.request, c.requests)
	})
	p.running.Go(func() { read(ctx, server, framing.reply, c.replies) })
	for {
		select {
		case request, open := <-c.requests:
			if !open || !c.exchange(request) {
				return
			}
		case reply, open := <-c.replies: // without a request, such as at the shutdown of the server
			if _, err := client.Write(reply.bytes); !open || err != nil {
				return
			}
		}
	}
}

// read sends the messages of a connection to a channel, which it closes at the end.
func read(ctx context.Context, from net.Conn, next func(*bufio.Reader) ([]byte, bool, error), to chan<- message) {
	defer close(to)
	for r := bufio.NewReader(from); ; {
		bytes, complete, err := next(r)
		if err != nil {
			return
		}
		select {
		case to <- message{bytes, complete}:
		case <-ctx.Done():
			return
		}
	}
}

// exchange forwards a request and its reply, or injects the planned fault. It reports whether the
// connection stays open.
func (c *conn) exchange(request message) bool {
	fault := None
	if request.complete {
		fault = c.proxy.number(request.bytes)
	}
	switch fault {
	case DropRequest, ResetRequest, StallRequest:
		c.hit(fault)
		if fault == StallRequest {
			<-c.clientGone.Done()
		}
		return false
	case LateRequest:
		c.isReleased()
	}
	if _, err := c.server.Write(request.bytes); err != nil || !request.complete {
		return err == nil
	}
	var held []byte // the parts of a reply with a fault
	for reply := range c.replies {
		if fault != None {
			held = append(held, reply.bytes...)
		} else if _, err := c.client.Write(reply.bytes); err != nil {
			return false
		}
		if reply.complete {
			return fault == None || c.injectReplyFault(held, fault)
		}
	}
	return false
}

// injectReplyFault reports whether the connection stays open.
func (c *conn) injectReplyFault(reply []byte, fault Kind) bool {
	c.hit(fault)
	switch fault {
	case CutReply:
		_, _ = c.client.Write(reply[:len(reply)/2])
	case StallReply:
		if c.isReleased() {
			_, err := c.client.Write(reply)
			return err == nil
		}
	}
	return false
}

// hit records a fault. If the fault resets the connection, the connection will end with a RST instead of
// a FIN.
func (c *conn) hit(fault Kind) {
	if fault == ResetRequest || fault == ResetReply {
		_ = c.client.(*net.TCPConn).SetLinger(0) // it only fails on a closed connection
	}
	c.proxy.hits.Add(1)
}

// isReleased waits until the client closes its connection or until Release, which it reports.
func (c *conn) isReleased() bool {
	select {
	case <-c.clientGone.Done():
		return false
	case <-c.proxy.released():
		return true
	}
}
