// Package faultproxy provides a proxy between a client and a Redis or PostgreSQL server in a test. It
// injects faults into chosen exchanges:
//
//	proxy := faultproxy.Redis(t, server.Addr())
//	client := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
//	proxy.Plan(faultproxy.Fault{At: 3, Kind: faultproxy.DropReply})
//
// An exchange is a request and its reply. With Redis it is one command. With PostgreSQL it is all
// messages up to ReadyForQuery; the start of a connection is an exchange, too. Exchanges are numbered
// from 1 in the order in which their requests arrive, over all connections. A client that uses one
// goroutine has its faults at the same exchanges in each run.
//
// A fault affects one exchange. The proxy first forwards the replies to earlier requests of the same
// connection. It does not forward later requests of a pipeline.
//
// The proxy parses the protocol. It does not support TLS, nor passwords, COPY and Flush in PostgreSQL, nor subscriptions and
// CLIENT REPLY in Redis.
package faultproxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy forwards connections to one server. Its methods are safe for concurrent use.
type Proxy struct {
	target   string
	framing  func() framing
	listener net.Listener
	running  sync.WaitGroup // the goroutines of the listener and of connections

	exchanges, hits atomic.Int64

	mu      sync.Mutex
	ctx     context.Context // of the connections; done after Disconnect
	cancel  func()
	faults  map[int]Kind
	only    func(request []byte) bool
	release chan struct{} // closed by Release
}

// Redis starts a proxy for the Redis server at a host and port. The proxy ends with the test.
func Redis(t testing.TB, target string) *Proxy {
	t.Helper()
	return start(t, target, func() framing { return resp{} })
}

// Postgres starts a proxy for the PostgreSQL server or PgBouncer at a host and port. The proxy ends
// with the test.
func Postgres(t testing.TB, target string) *Proxy {
	t.Helper()
	return start(t, target, func() framing { return &postgres{} })
}

func start(t testing.TB, target string, framing func() framing) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, framing: framing, listener: listener, release: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running.Go(p.serve)
	t.Cleanup(func() {
		listener.Close()
		p.cancel()
		p.running.Wait()
	})
	return p
}

// Addr returns the host and port of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Plan replaces the planned faults. It clears the hits and starts the numbering again: the next
// request has the number 1.
func (p *Proxy) Plan(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exchanges.Store(0)
	p.hits.Store(0)
	p.faults = map[int]Kind{}
	for _, fault := range faults {
		p.faults[fault.At] = fault.Kind
	}
}

// Only restricts the numbering to exchanges whose request matches. All others have no faults. A nil
// match numbers all exchanges.
func (p *Proxy) Only(match func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.only = match
}

// Exchanges returns how many exchanges were numbered since Plan.
func (p *Proxy) Exchanges() int { return int(p.exchanges.Load()) }

// Hits returns how many faults have happened since Plan. A fault counts before the client can notice it, and a
// [LateRequest] after the server has answered it.
func (p *Proxy) Hits() int { return int(p.hits.Load()) }

// Release forwards the messages that [LateRequest] and [StallReply] hold. Some clients take long to
// close a connection: pgx waits for the server for up to 15 s.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.release)
	p.release = make(chan struct{})
}

// Disconnect closes all connections.
func (p *Proxy) Disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel()
	p.ctx, p.cancel = context.WithCancel(context.Background())
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the test has ended
		}
		p.running.Go(func() { p.forward(client) })
	}
}

// connected returns the context of a new connection.
func (p *Proxy) connected() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ctx
}

// number numbers a request and returns its fault.
func (p *Proxy) number(request []byte) Kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.only != nil && !p.only(request) {
		return None
	}
	return p.faults[int(p.exchanges.Add(1))]
}

func (p *Proxy) released() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.release
}
