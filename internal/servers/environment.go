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

// newDir creates the directory of a server, which only its owner may read. Its path is short, because
// the path of a Unix socket has at most 107 bytes, and all users may enter its parent. The temporary
// directory of the test guarantees neither.
func newDir(owner *syscall.Credential) (string, error) {
	parent := "/tmp"
	if _, err := os.Stat(parent); err != nil {
		parent = os.TempDir()
	}
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("sluice-%d-", os.Getpid()))
	if err != nil {
		return "", err
	}
	return dir, setOwner(dir, owner)
}

func setOwner(path string, owner *syscall.Credential) error {
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
	return path, setOwner(path, owner)
}

// unprivileged returns another user if this one is root, because PostgreSQL and PgBouncer refuse to
// run as root. Otherwise it returns nil.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			return credential(found)
		}
	}
	return nil, fmt.Errorf("servers: PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as; create one")
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

// busOffset is the difference between the cluster bus port and the port of a Redis node.
const busOffset = 10000

// onFreePort starts a server on a free port. If another process takes the port first, it tries another
// one. The ports are below the kernel's range for client connections, so that no client takes the
// port of a killed server.
func onFreePort[S server](start func(port int) (S, error)) (s S, err error) {
	for range 10 {
		port := 10000 + rand.IntN(10000)
		if !isFree(port) || !isFree(port+busOffset) {
			continue
		}
		if s, err = start(port); !isPortInUse(err) {
			return s, err
		}
	}
	if err == nil {
		err = fmt.Errorf("servers: no free port found in 10 attempts")
	}
	return s, err
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
