package servers

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"syscall"
)

const loopback = "127.0.0.1"

// newDir creates the directory of a server, which only its owner may read. Its path is short, because
// the path of a Unix socket has at most 107 bytes, and all users may enter its parent. The temporary
// directory of the test guarantees neither.
func newDir(owner *syscall.Credential) (string, error) {
	dir, err := os.MkdirTemp("/tmp", fmt.Sprintf("sluice-%d-", os.Getpid()))
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

// writeFile writes a file that only the server may read. name is relative to its directory.
func (p *Process) writeFile(name, text string) error {
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return setOwner(path, p.owner)
}

// unprivileged returns the user of all servers if this process runs as root, because PostgreSQL and
// PgBouncer refuse to run as root. Otherwise it returns nil.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			var c syscall.Credential
			_, err := fmt.Sscan(found.Uid+" "+found.Gid, &c.Uid, &c.Gid)
			return &c, err
		}
	}
	return nil, fmt.Errorf("servers: PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as; create one")
}
