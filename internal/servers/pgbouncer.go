package servers

import (
	"fmt"
	"strings"
	"syscall"
)

// PgBouncerServer is a PgBouncer in transaction mode: a client has a connection of the PostgreSQL
// server during a transaction.
type PgBouncerServer struct {
	*Process
	port int
}

// PgBouncer starts a PgBouncer for one test. It connects to the given PostgreSQL server. Settings are
// lines of the section [pgbouncer], such as "default_pool_size = 2".
func PgBouncer(t T, backend *PostgresServer, settings ...string) *PgBouncerServer {
	t.Helper()
	return start(t, PgBouncerPrograms, func() (*PgBouncerServer, error) { return newPgBouncer(backend, settings) })
}

// Addr returns the host and port of the server.
func (s *PgBouncerServer) Addr() string { return address(s.port) }

// DSN returns a connection string for the PostgreSQL server, through PgBouncer.
func (s *PgBouncerServer) DSN() string { return PostgresDSN(s.Addr()) }

func newPgBouncer(backend *PostgresServer, settings []string) (*PgBouncerServer, error) {
	path, err := find("pgbouncer")
	if err != nil {
		return nil, err
	}
	owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	return onFreePort(func(port int) (*PgBouncerServer, error) {
		dir, err := newDir(owner)
		if err != nil {
			return nil, err
		}
		s := &PgBouncerServer{port: port, Process: &Process{
			dir: dir, argv: []string{path, "pgbouncer.ini"}, owner: owner, stopSignal: syscall.SIGTERM,
		}}
		s.ready = func(pid int) bool { return strings.Contains(s.Log(), fmt.Sprintf("[%d] LOG process up:", pid)) }
		if err = s.configure(backend, settings); err == nil {
			err = s.firstStart()
		}
		if err != nil {
			s.close()
		}
		return s, err
	})
}

func (s *PgBouncerServer) configure(backend *PostgresServer, settings []string) error {
	ini := fmt.Sprintf(`[databases]
* = host=%s port=%d
[pgbouncer]
listen_addr = %s
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = users
pool_mode = transaction
max_client_conn = 500
%s
`, loopback, backend.port, loopback, s.port, strings.Join(settings, "\n"))
	if _, err := writeFile(s.dir, "users", `"sluice" ""`+"\n", s.owner); err != nil {
		return err
	}
	_, err := writeFile(s.dir, "pgbouncer.ini", ini, s.owner)
	return err
}
