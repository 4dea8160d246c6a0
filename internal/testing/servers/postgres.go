package servers

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// PostgresServer is a PostgreSQL server, or a PgBouncer in front of one. Its superuser and its database are called sluice, and it
// needs no password. It has fsync off: commits survive a kill of the server, but not of the machine.
type PostgresServer struct{ Process }

// Postgres starts a PostgreSQL server for one test. Settings are lines of postgresql.conf, such as
// "max_connections = 20".
func Postgres(t testing.TB, settings ...string) *PostgresServer {
	t.Helper()
	return start(t, PostgresPrograms, new(PostgresServer), settings)
}

// DSN returns a connection string.
func (s *PostgresServer) DSN() string { return PostgresDSN(s.Addr()) }

// PostgresDSN returns a connection string for a [PostgresServer] with another address, such as that of
// a proxy.
func PostgresDSN(addr string) string {
	return fmt.Sprintf("postgres://sluice@%s/sluice?sslmode=disable", addr)
}

func (s *PostgresServer) create(settings []string) error {
	return s.Process.create("postgres", "database system is ready to accept", func() error {
		server := s.argv[0]
		s.argv = append(s.argv, "-D", "data", "-k", s.dir, "-h", loopback, "-p", strconv.Itoa(s.port))
		path, err := find("initdb")
		if err != nil {
			return err
		}
		initdb := s.command(path, "--pgdata=data", "--username=sluice", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
		if text, err := initdb.CombinedOutput(); err != nil {
			return fmt.Errorf("initdb: %w\n%s", err, text)
		}
		single := s.command(server, "--single", "-D", "data", "-F", "template1")
		single.Stdin = strings.NewReader("ALTER DATABASE postgres RENAME TO sluice;\n") // a new database would take longer
		if text, err := single.CombinedOutput(); err != nil {
			return fmt.Errorf("rename database: %w\n%s", err, text)
		}
		lines := append([]string{"fsync = off", "full_page_writes = off", "shared_buffers = 32MB"}, settings...)
		return s.writeFile("data/postgresql.auto.conf", strings.Join(lines, "\n")+"\n")
	})
}

// pgBouncer is a PgBouncer in transaction mode.
type pgBouncer struct {
	PostgresServer
	backend *PostgresServer
}

// PgBouncer starts a PgBouncer for one test, in transaction mode: a client has a connection of the given PostgreSQL server
// during a transaction. Settings are lines of the section [pgbouncer], such as "default_pool_size = 2".
func PgBouncer(t testing.TB, backend *PostgresServer, settings ...string) *PostgresServer {
	t.Helper()
	return &start(t, PgBouncerPrograms, &pgBouncer{backend: backend}, settings).PostgresServer
}

func (s *pgBouncer) create(settings []string) error {
	return s.Process.create("pgbouncer", "LOG process up:", func() error {
		s.argv = append(s.argv, "pgbouncer.ini")
		if err := s.writeFile("users", `"sluice" ""`+"\n"); err != nil {
			return err
		}
		return s.writeFile("pgbouncer.ini", fmt.Sprintf(`[databases]
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
`, loopback, s.backend.port, loopback, s.port, strings.Join(settings, "\n")))
	})
}
