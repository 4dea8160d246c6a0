package servers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The arguments of [Shared.Main]: the programs that the tests of a package start. Pause and Kill find the
// children of PostgreSQL with ps.
const (
	RedisPrograms     = "redis-server"
	SentinelPrograms  = "redis-server redis-sentinel"
	PostgresPrograms  = "initdb postgres ps"
	PgBouncerPrograms = "initdb postgres ps pgbouncer"
)

// server is a server or a group of servers. close removes it, also if create has failed.
type server interface {
	create(settings []string) error
	close()
}

// start starts a server and removes it after the test.
func start[S server](t testing.TB, programs string, s S, settings []string) S {
	t.Helper()
	need(t, programs)
	t.Cleanup(s.close)
	if err := s.create(settings); err != nil {
		t.Fatal(err)
	}
	return s
}

func need(t testing.TB, programs string) {
	t.Helper()
	switch err := checkPrograms(programs); {
	case err == nil:
	case isRequired():
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// isRequired reports whether a test fails if it cannot start a server.
func isRequired() bool { return os.Getenv("SLUICE_REQUIRE_SERVERS") != "" && !testing.Short() }

// checkPrograms returns an error if a test that needs the programs cannot run. The error says how to
// install the first missing program.
func checkPrograms(programs string) error {
	if testing.Short() {
		return errors.New("tests with servers do not run with -short")
	}
	for program := range strings.FieldsSeq(programs) {
		if _, err := find(program); err != nil {
			return fmt.Errorf("%s is missing; scripts/test.sh installs it, or on Debian: apt-get install %s", program, cmp.Or(packages[program], program))
		}
	}
	return nil
}

// packages has the Debian packages of programs with another name.
var packages = map[string]string{"initdb": "postgresql", "postgres": "postgresql", "ps": "procps"}

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
