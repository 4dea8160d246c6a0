package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The arguments of [Shared.Main]: the programs that the tests of a package start.
const (
	RedisPrograms     = "redis-server"
	SentinelPrograms  = "redis-server redis-sentinel"
	PostgresPrograms  = "initdb postgres"
	PgBouncerPrograms = "initdb postgres pgbouncer"
)

// T has the methods of testing.TB that the package needs. *testing.T, B and F implement it.
type T interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
	Cleanup(func())
}

// server is a server that can be removed.
type server interface{ close() }

// start starts a server and removes it after the test.
func start[S server](t T, programs string, newServer func() (S, error)) S {
	t.Helper()
	need(t, programs)
	s, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func need(t T, programs string) {
	t.Helper()
	switch err := checkPrograms(programs); {
	case err == nil:
	case isRequired() && !testing.Short():
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// checkPrograms returns an error if a test that needs the programs cannot run.
func checkPrograms(programs string) error {
	if testing.Short() {
		return errors.New("tests with servers do not run with -short")
	}
	return checkInstalled(programs)
}

func isRequired() bool { return os.Getenv("SLUICE_REQUIRE_SERVERS") != "" }

// checkInstalled returns an error that says how to install the first missing program.
func checkInstalled(programs string) error {
	for _, program := range strings.Fields(programs) {
		if _, err := find(program); err != nil {
			return fmt.Errorf("%s is missing; scripts/test.sh installs it, or on Debian: apt-get install %s", program, debianPackage(program))
		}
	}
	return nil
}

func debianPackage(program string) string {
	if program == "initdb" || program == "postgres" {
		return "postgresql"
	}
	return program
}

// find searches for a program in PATH, in Debian's directories for PostgreSQL, where it takes the newest
// version, and in the sbin directories.
func find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) + strings.Compare(b, a) })
	for _, path := range append(found, "/usr/sbin/"+program, "/usr/local/sbin/"+program) {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", err
}
