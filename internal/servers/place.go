package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

const loopback = "127.0.0.1"

// newDir makes a server's directory, which its owner alone may enter. Its path
// is short, since that of a unix socket has at most 107 bytes, and open to every
// user above it: neither is sure of the test's own temporary directory.
func newDir(owner *syscall.Credential) (string, error) {
	parent := "/tmp"
	if _, err := os.Stat(parent); err != nil {
		parent = os.TempDir()
	}
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("sluice-%d-", os.Getpid()))
	if err != nil {
		return "", err
	}
	return dir, give(dir, owner)
}

func give(path string, owner *syscall.Credential) error {
	if owner == nil {
		return nil
	}
	return os.Chown(path, int(owner.Uid), int(owner.Gid))
}

func writeFile(dir, name, text string, owner *syscall.Credential) (string, error) {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", err
	}
	return path, give(path, owner)
}

// unprivileged is another user if this one is root, as which Postgres and
// PgBouncer refuse to run, and otherwise nil.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			return credential(found)
		}
	}
	return nil, fmt.Errorf("servers: root must start Postgres as another user, and there is neither postgres nor nobody")
}

func credential(u *user.User) (*syscall.Credential, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// busOffset is how far above a Redis node's port its cluster bus listens.
const busOffset = 10000

// onFreePort begins a server on a port that is free, and on another when
// somebody was quicker. Ports come from below those that kernels hand out to
// clients, so that a server which was killed finds its own again.
func onFreePort[S server](begin func(port int) (S, error)) (s S, err error) {
	for range 10 {
		port := 10000 + rand.IntN(10000)
		if !free(port) || !free(port+busOffset) {
			continue
		}
		if s, err = begin(port); !portTaken(err) {
			return s, err
		}
	}
	if err == nil {
		err = fmt.Errorf("servers: found no free port")
	}
	return s, err
}

func free(port int) bool {
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
