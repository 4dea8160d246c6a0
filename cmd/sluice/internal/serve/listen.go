package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// listen listens on HOST:PORT or unix:PATH. private means that only this machine can reach it.
func listen(address string) (l net.Listener, private bool, err error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		l, err = listenUnix(path)
		return l, true, err
	}
	resolved, err := resolve(address)
	if err != nil {
		return nil, false, err
	}
	if l, err = net.ListenTCP("tcp", resolved); err != nil {
		return nil, false, fmt.Errorf("%s: %w", address, unlistened(err))
	}
	return l, resolved.IP.IsLoopback(), nil
}

// unlistened returns the reason why listening failed, with a remedy if another process uses the
// address.
func unlistened(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return errors.New("another process listens on this address; stop it, or use another port")
	}
	return err
}

// CheckListen validates the address of the proxy, HOST:PORT or :PORT, without listening.
func CheckListen(address string) error {
	_, err := resolve(address)
	return err
}

// CheckApart returns an error if two listeners would use the same port.
func CheckApart(listen, api string) error {
	if isUnix(listen) || isUnix(api) {
		return nil
	}
	a, err := resolve(listen)
	if err != nil {
		return err
	}
	b, err := resolve(api)
	if err != nil {
		return err
	}
	everywhere := len(a.IP) == 0 || len(b.IP) == 0 || a.IP.IsUnspecified() || b.IP.IsUnspecified()
	if a.Port == b.Port && a.Port != 0 && (everywhere || a.IP.Equal(b.IP)) {
		return fmt.Errorf("%s: --listen %s uses that port; use another port", api, listen)
	}
	return nil
}

// CheckAPI validates the address of the decision service, HOST:PORT, :PORT or unix:PATH, without
// listening. Without a token, the address must be a loopback address or a unix socket.
func CheckAPI(address, token string) error {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return clearSocket(path)
	}
	resolved, err := resolve(address)
	if errors.Is(err, errForm) {
		return fmt.Errorf("%w, or unix:PATH", err)
	}
	if err == nil && token == "" && !resolved.IP.IsLoopback() {
		err = fmt.Errorf("%s: other machines can reach this address, and anyone who can reach it can reset limits; want --token-file, or an address such as 127.0.0.1:8081 or unix:PATH", address)
	}
	return err
}

func isUnix(address string) bool { return strings.HasPrefix(address, "unix:") }

// errForm is the end of the error for an address that is not HOST:PORT or :PORT.
var errForm = errors.New("want HOST:PORT or :PORT")

func resolve(address string) (*net.TCPAddr, error) {
	if address == "" {
		return nil, fmt.Errorf("is empty; %w", errForm)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", address, errForm)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return nil, fmt.Errorf("%q: invalid port %q; %w", address, port, errForm)
	}
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%q: no address found for the host %q; use its IP address", address, host)
	}
	return resolved, nil
}

// socket is a unix socket that this process created. Close removes it.
type socket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
	gone sync.Once
}

// listenUnix creates a socket that only the owner and the group may connect to. It creates the
// socket in a private directory, sets its mode, and moves it to its path. A umask would apply to
// the whole process.
func listenUnix(path string) (net.Listener, error) {
	if err := clearSocket(path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, fmt.Errorf("unix:%s: %w", path, err)
	}
	defer os.RemoveAll(dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, "s")})
	if err != nil {
		return nil, fmt.Errorf("unix:%s: %w", path, tooLong(dir, err))
	}
	l.SetUnlinkOnClose(false)
	s := &socket{UnixListener: l, path: path}
	if err := s.place(filepath.Join(dir, "s")); err != nil {
		l.Close()
		return nil, fmt.Errorf("unix:%s: %w", path, err)
	}
	return s, nil
}

// tooLong explains the system's error "invalid argument".
func tooLong(dir string, err error) error {
	if errors.Is(err, syscall.EINVAL) || len(dir) > 100 {
		return errors.New("the path is too long for a socket; use a shorter one")
	}
	return err
}

func (s *socket) place(from string) (err error) {
	if err = os.Chmod(from, 0o660); err != nil {
		return err
	}
	if s.made, err = os.Lstat(from); err != nil {
		return err
	}
	return os.Rename(from, s.path)
}

// clearSocket returns an error if a new socket would replace something in use. A socket that no
// process listens on may be replaced.
func clearSocket(path string) error {
	if path == "" {
		return errors.New("unix: without a path; want unix:PATH, such as unix:/run/sluice.sock")
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

// Close closes the socket. It removes the file unless another process has replaced it.
func (s *socket) Close() error {
	s.gone.Do(func() {
		if there, err := os.Lstat(s.path); err == nil && os.SameFile(there, s.made) {
			_ = os.Remove(s.path)
		}
	})
	return s.UnixListener.Close()
}

// Addr returns the path of the socket.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: s.path} }
