package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A PostgresServer is one Postgres with a superuser and a database that are
// both called sluice, open to whoever can reach it. It does not wait for the
// disk, so a test may kill the server and lose nothing, but not the machine.
type PostgresServer struct {
	*Process
	port int
}

// Postgres starts a Postgres for one test. Settings are lines of
// postgresql.conf, such as "max_connections = 20".
func Postgres(t T, settings ...string) *PostgresServer {
	t.Helper()
	return start(t, PostgresPrograms, func() (*PostgresServer, error) { return newPostgres(settings) })
}

// Addr is the host and port that the server listens on.
func (s *PostgresServer) Addr() string { return address(s.port) }

// Socket is the path of the unix socket that the server listens on.
func (s *PostgresServer) Socket() string {
	return filepath.Join(s.dir, ".s.PGSQL."+strconv.Itoa(s.port))
}

// DSN leads to the server over TCP.
func (s *PostgresServer) DSN() string { return PostgresDSN(s.Addr()) }

// SocketDSN leads to the server over its unix socket.
func (s *PostgresServer) SocketDSN() string {
	return fmt.Sprintf("postgres:///sluice?user=sluice&host=%s&port=%d", s.dir, s.port)
}

// PostgresDSN leads to a [PostgresServer] by way of another address, such as
// that of a proxy in front of it.
func PostgresDSN(addr string) string {
	return fmt.Sprintf("postgres://sluice@%s/sluice?sslmode=disable", addr)
}

func newPostgres(settings []string) (*PostgresServer, error) {
	owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := newDir(owner)
	if err != nil {
		return nil, err
	}
	s, err := newPostgresIn(dir, owner, settings)
	if err != nil {
		_ = os.RemoveAll(dir)
	}
	return s, err
}

func newPostgresIn(dir string, owner *syscall.Credential, settings []string) (*PostgresServer, error) {
	if err := initdb(dir, owner, settings); err != nil {
		return nil, err
	}
	path, err := find("postgres")
	if err != nil {
		return nil, err
	}
	return onFreePort(func(port int) (*PostgresServer, error) {
		s := &PostgresServer{port: port, Process: &Process{
			dir:     dir,
			argv:    []string{path, "-D", "data", "-k", dir, "-h", loopback, "-p", strconv.Itoa(port)},
			owner:   owner,
			goodbye: syscall.SIGINT, // SIGTERM would wait for the clients to leave
		}}
		s.ready = s.accepts
		return s, s.begin()
	})
}

func initdb(dir string, owner *syscall.Credential, settings []string) error {
	path, err := find("initdb")
	if err != nil {
		return err
	}
	cmd := exec.Command(path, "--pgdata=data", "--username=sluice", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, environment(), &syscall.SysProcAttr{Credential: owner}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, text)
	}
	if err := createDatabase(dir, owner); err != nil {
		return err
	}
	lines := append([]string{"fsync = off", "full_page_writes = off", "shared_buffers = 32MB"}, settings...)
	_, err = writeFile(filepath.Join(dir, "data"), "postgresql.auto.conf", strings.Join(lines, "\n")+"\n", owner)
	return err
}

// createDatabase works before the server has ever run, in single-user mode.
func createDatabase(dir string, owner *syscall.Credential) error {
	path, err := find("postgres")
	if err != nil {
		return err
	}
	cmd := exec.Command(path, "--single", "-D", "data", "-F", "postgres")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, environment(), &syscall.SysProcAttr{Credential: owner}
	cmd.Stdin = strings.NewReader("CREATE DATABASE sluice;\n")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("create database: %w\n%s", err, text)
	}
	return nil
}

// accepts reads what the server says of itself in the file that also guards its
// data: its process id in the first line and its state in the eighth.
func (s *PostgresServer) accepts(pid int) bool {
	text, err := os.ReadFile(filepath.Join(s.dir, "data", "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	return err == nil && len(lines) >= 8 &&
		lines[0] == strconv.Itoa(pid) && strings.TrimSpace(lines[7]) == "ready"
}
