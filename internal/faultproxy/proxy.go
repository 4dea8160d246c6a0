package faultproxy

import (
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// T is what a proxy asks of a test. A *testing.T, B and F are one.
type T interface {
	Helper()
	Fatal(args ...any)
	Cleanup(func())
}

// A Proxy forwards connections to one server. Its methods may be called at any
// time from any goroutine.
type Proxy struct {
	target  string
	framing func() framing
	addr    string
	running sync.WaitGroup // everything that serves a listener or a connection

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	conns    map[*conn]bool
	faults   map[int]Kind
	only     func(request []byte) bool
	seen     int
	hits     []Fault
	release  chan struct{} // closed by Release
}

// Redis starts a proxy in front of a Redis, at a host and port or at the path of
// a unix socket. It ends with the test.
func Redis(t T, target string) *Proxy {
	t.Helper()
	return start(t, target, func() framing { return resp{} })
}

// Postgres starts a proxy in front of a Postgres or a PgBouncer, at a host and
// port or at the path of a unix socket. It ends with the test.
func Postgres(t T, target string) *Proxy {
	t.Helper()
	return start(t, target, func() framing { return &postgres{} })
}

func start(t T, target string, framing func() framing) *Proxy {
	t.Helper()
	p := &Proxy{target: target, framing: framing, conns: map[*conn]bool{}, release: make(chan struct{})}
	if err := p.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Refuse()
		p.running.Wait()
	})
	return p
}

// Addr is the host and port where the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// Plan numbers the exchanges anew, so that the next request has the number 1,
// forgets the hits, and has the faults happen from now on.
func (p *Proxy) Plan(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.hits, p.faults = 0, nil, map[int]Kind{}
	for _, fault := range faults {
		p.faults[fault.At] = fault.Kind
	}
}

// Only has the proxy number those exchanges alone whose request matches, and
// leave all others in peace. A nil match numbers them all.
func (p *Proxy) Only(match func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.only = match
}

// Seen is the number of the last exchange.
func (p *Proxy) Seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// Hits lists the faults that have happened. A fault is in the list by the time
// that the client can notice it; a [LateRequest] only when the server has
// answered it.
func (p *Proxy) Hits() []Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.hits)
}

// Release forwards now what [LateRequest] and [StallReply] hold. Some clients
// take long to hang up: pgx first waits for the server, up to 15 s.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.release)
	p.release = make(chan struct{})
}

// Refuse is a total outage: it closes all connections, and new ones are refused
// until Accept.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	for c := range p.conns {
		c.close()
	}
}

// Accept ends an outage, at the same address.
func (p *Proxy) Accept() error {
	p.mu.Lock()
	accepting := p.listener != nil
	p.mu.Unlock()
	if accepting {
		return nil
	}
	return p.listen()
}

// listen takes the address it had, or else any. Ports come from below those that
// kernels hand out to clients, so that nobody takes this one during an outage.
func (p *Proxy) listen() (err error) {
	var listener net.Listener
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		addr := p.addr
		if addr == "" {
			addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(12000)))
		}
		if listener, err = net.Listen("tcp", addr); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addr, p.listener = listener.Addr().String(), listener
	p.running.Go(func() { p.serve(listener) })
	return nil
}

func (p *Proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // closed by Refuse
		}
		p.running.Go(func() { p.forward(listener, client) })
	}
}

func (p *Proxy) forward(listener net.Listener, client net.Conn) {
	server, err := net.Dial(network(p.target), p.target)
	if err != nil {
		client.Close()
		return
	}
	c := newConn(p, client, server)
	if !p.enter(listener, c) {
		c.close()
		return
	}
	defer p.leave(c)
	p.running.Go(c.requests)
	c.replies()
}

func network(addr string) string {
	if strings.HasPrefix(addr, "/") {
		return "unix"
	}
	return "tcp"
}

// enter lists a connection, unless an outage began after it was accepted.
func (p *Proxy) enter(listener net.Listener, c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != listener {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) leave(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// number gives a request its place in the plan.
func (p *Proxy) number(request []byte) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.only != nil && !p.only(request) {
		return Fault{}
	}
	p.seen++
	return Fault{p.seen, p.faults[p.seen]}
}

func (p *Proxy) hit(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hits = append(p.hits, fault)
}

func (p *Proxy) released() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.release
}
