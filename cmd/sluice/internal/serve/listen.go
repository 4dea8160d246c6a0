package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
)

// addresses returns the addresses to listen on: nil for the proxy if there is none, and nil for the
// decision service if there is none or if it has a unix socket. Without a token, the decision
// service must have a loopback address or a unix socket. The errors name the flags of sluice serve.
func (o *Options) addresses() (proxy, api *net.TCPAddr, err error) {
	if o.Upstream != nil {
		if proxy, err = resolve(o.Listen, form); err != nil {
			return nil, nil, fmt.Errorf("--listen %w", err)
		}
		if isProxy(o.Upstream, proxy) {
			return nil, nil, fmt.Errorf("--upstream %s is the address of --listen %s, so each request would return to the proxy; want the program behind the proxy, or another --listen",
				o.Upstream.Redacted(), o.Listen)
		}
	}
	if path, ok := strings.CutPrefix(o.API, unixPrefix); ok {
		err = clearSocket(path)
	} else if o.API != "" {
		api, err = resolve(o.API, form+", or unix:PATH")
	}
	switch {
	case err != nil || api == nil:
	case o.Token == "" && !api.IP.IsLoopback():
		err = fmt.Errorf("%s: other machines can reach this address, and anyone who can reach it can reset limits; want --token-file, or an address such as 127.0.0.1:8081 or unix:PATH", o.API)
	case proxy != nil && overlap(proxy, api):
		err = fmt.Errorf("%s: --listen %s uses that port; use another port", o.API, o.Listen)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--api %w", err)
	}
	return proxy, api, nil
}

// overlap reports whether two listeners would use the same port.
func overlap(a, b *net.TCPAddr) bool {
	everywhere := len(a.IP) == 0 || len(b.IP) == 0 || a.IP.IsUnspecified() || b.IP.IsUnspecified()
	return a.Port == b.Port && a.Port != 0 && (everywhere || a.IP.Equal(b.IP))
}

// isProxy reports whether the upstream is the proxy itself. Each request would then loop until a
// limit or the system ends it. It knows the proxy by its address, and by localhost; it looks up no
// other names.
func isProxy(upstream *url.URL, proxy *net.TCPAddr) bool {
	port := cmp.Or(upstream.Port(), map[string]string{"http": "80", "https": "443"}[upstream.Scheme])
	if proxy.Port == 0 || strconv.Itoa(proxy.Port) != port {
		return false
	}
	host := strings.TrimSuffix(upstream.Hostname(), ".") // of a fully qualified name
	addr, _ := netip.ParseAddr(host)
	addr = addr.Unmap()
	at := proxy.AddrPort().Addr().Unmap()
	everywhere := !at.IsValid() || at.IsUnspecified()
	local := addr.IsUnspecified() || strings.EqualFold(host, "localhost")
	return addr.IsValid() && addr == at || local && (everywhere || at.IsLoopback()) || everywhere && addr.IsLoopback()
}

// listenTCP returns an error with a remedy if another process uses the address.
func listenTCP(address string, resolved *net.TCPAddr) (net.Listener, error) {
	l, err := net.ListenTCP("tcp", resolved)
	if err == nil {
		return l, nil
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		err = errors.New("another process listens on this address; stop it, or use another port")
	}
	return nil, fmt.Errorf("%s: %w", address, err)
}

// isPrivate reports whether only this machine can reach a listener.
func isPrivate(l net.Listener) bool {
	tcp, ok := l.Addr().(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

const unixPrefix = "unix:"

// form is what resolve accepts.
const form = "HOST:PORT or :PORT"

// resolve returns the address to listen on. want is for errors.
func resolve(address, want string) (*net.TCPAddr, error) {
	if address == "" {
		return nil, fmt.Errorf("is empty; want %s", want)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q: want %s", address, want)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return nil, fmt.Errorf("%q: invalid port %q; want %s", address, port, want)
	}
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%q: no address found for the host %q; use its IP address", address, host)
	}
	return resolved, nil
}

// listenUnix creates a socket that only the owner and the group may connect to. It replaces a socket
// that no process listens on.
func listenUnix(path string) (net.Listener, error) {
	_ = os.Remove(path)
	private := func(_, _ string, c syscall.RawConn) error {
		return c.Control(setPrivate) // a umask would apply to the whole process
	}
	l, err := (&net.ListenConfig{Control: private}).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("unix:%s: %w", path, errors.Unwrap(err))
	}
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// clearSocket returns an error if a new socket would replace something in use, or if no program could
// connect to it. A socket that no process listens on may be replaced.
func clearSocket(path string) error {
	switch {
	case path == "":
		return errors.New("unix: without a path; want unix:PATH, such as unix:/run/sluice.sock")
	case path[0] == '@': // a name without a file on Linux
		return fmt.Errorf("unix:%s: the path begins with @; want ./%s", path, path)
	case len(path) >= len(syscall.RawSockaddrUnix{}.Path): // the last byte is 0
		return fmt.Errorf("unix:%s: the path is too long for a socket; use a shorter one", path)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("unix:%s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("unix:%s: the file exists and is not a socket; use another path, or remove the file", path)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("unix:%s: another process listens on this socket; stop it, or use another path", path)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("unix:%s: cannot find out whether a process listens on this socket: %w", path, err)
}

// defaultMaxConnections suits a small machine. Each connection needs an open file, and each request in
// progress may need one for a connection to the upstream.
const defaultMaxConnections = 10_000

// maxStreams is how many requests an HTTP/2 connection may have in progress. net/http tells the
// client, and also counts requests that the client has canceled, until their handlers return.
const maxStreams = 100

// maxConnections is a listener that limits the number of open connections, as
// golang.org/x/net/netutil.LimitListener does. Further connections wait in the kernel's queue.
// When the queue is full, their clients retry.
type maxConnections struct {
	net.Listener
	slots  *semaphore.Weighted // one for each open connection, and one for the next
	isFull func(full bool)     // called with true when Accept begins to wait, and with false when it has a slot
	closed context.Context
	close  context.CancelFunc
}

func limitConnections(l net.Listener, limit int, isFull func(full bool)) net.Listener {
	if limit == 0 {
		return l
	}
	closed, close := context.WithCancel(context.Background())
	return &maxConnections{l, semaphore.NewWeighted(int64(limit)), isFull, closed, close}
}

// Accept implements net.Listener.
func (l *maxConnections) Accept() (net.Conn, error) {
	if !l.slots.TryAcquire(1) {
		l.isFull(true)
		if l.slots.Acquire(l.closed, 1) != nil {
			return nil, net.ErrClosed
		}
		l.isFull(false)
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		l.slots.Release(1)
		return nil, err
	}
	return &countedConn{conn.(halfCloser), sync.OnceFunc(func() { l.slots.Release(1) })}, nil
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
