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

// What [Shared.Main] is told that a package's tests start.
const (
	RedisPrograms     = "redis-server"
	SentinelPrograms  = "redis-server redis-sentinel"
	PostgresPrograms  = "initdb postgres"
	PgBouncerPrograms = "initdb postgres pgbouncer"
)

// T is what the servers ask of a test. A *testing.T, B and F are one.
type T interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
	Cleanup(func())
}

// server is anything that can be ended for good.
type server interface{ close() }

// start starts a server that lives as long as the test.
func start[S server](t T, programs string, begin func() (S, error)) S {
	t.Helper()
	need(t, programs)
	s, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func need(t T, programs string) {
	t.Helper()
	switch err := leftOut(programs); {
	case err == nil:
	case required() && !testing.Short():
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// leftOut returns why a test that needs the programs must not run.
func leftOut(programs string) error {
	if testing.Short() {
		return errors.New("-short leaves out what needs a server")
	}
	return missing(programs)
}

func required() bool { return os.Getenv("SLUICE_REQUIRE_SERVERS") != "" }

// missing says how to get the first of the programs that cannot be found.
func missing(programs string) error {
	for _, program := range strings.Fields(programs) {
		if _, err := find(program); err != nil {
			return fmt.Errorf("%s is missing; scripts/test.sh installs it, or on Debian: apt-get install %s", program, debian(program))
		}
	}
	return nil
}

func debian(program string) string {
	if program == "initdb" || program == "postgres" {
		return "postgresql"
	}
	return program
}

// find looks where a server's program may be: on the PATH, where Debian keeps
// the versions of Postgres (the newest wins), and where only root's PATH leads.
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
