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

// PostgresServer is a PostgreSQL server. Its superuser and its database are called sluice, and it
// needs no password. It has fsync off: commits survive a kill of the server, but not of the machine.
type PostgresServer struct {
	*Process
	port int
}

// Postgres starts a PostgreSQL server for one test. Settings are lines of postgresql.conf, such as
// "max_connections = 20".
func Postgres(t T, settings ...string) *PostgresServer {
	t.Helper()
	return start(t, PostgresPrograms, func() (*PostgresServer, error) { return newPostgres(settings) })
}

// Addr returns the host and port of the server.
func (s *PostgresServer) Addr() string { return address(s.port) }

// Socket returns the path of the Unix socket of the server.
func (s *PostgresServer) Socket() string {
	return filepath.Join(s.dir, ".s.PGSQL."+strconv.Itoa(s.port))
}

// DSN returns a connection string for TCP.
func (s *PostgresServer) DSN() string { return PostgresDSN(s.Addr()) }

// SocketDSN returns a connection string for the Unix socket.
func (s *PostgresServer) SocketDSN() string {
	return fmt.Sprintf("postgres:///sluice?user=sluice&host=%s&port=%d", s.dir, s.port)
}

// PostgresDSN returns a connection string for a [PostgresServer] with another address, such as that of
// a proxy.
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
			dir:        dir,
			argv:       []string{path, "-D", "data", "-k", dir, "-h", loopback, "-p", strconv.Itoa(port)},
			owner:      owner,
			stopSignal: syscall.SIGINT, // SIGTERM would wait until all clients disconnect
		}}
		s.ready = s.isReady
		return s, s.firstStart()
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

// createDatabase creates the database in single-user mode, before the first start.
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

// isReady reads postmaster.pid. Its first line is the process id, and its eighth line is the state.
func (s *PostgresServer) isReady(pid int) bool {
	text, err := os.ReadFile(filepath.Join(s.dir, "data", "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	return err == nil && len(lines) >= 8 &&
		lines[0] == strconv.Itoa(pid) && strings.TrimSpace(lines[7]) == "ready"
}
