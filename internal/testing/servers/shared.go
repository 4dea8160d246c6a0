package servers

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// Shared holds servers that all tests of a package use. Each is started at its first use. The zero
// value is valid. Tests that share a server must use different keys and tables, and must not stop it.
type Shared struct {
	mu      sync.Mutex
	servers []server
}

// get starts fresh, unless a server of its type was started before.
func get[S server](t testing.TB, s *Shared, programs string, fresh S) S {
	t.Helper()
	need(t, programs)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, started := range s.servers {
		if found, ok := started.(S); ok {
			return found
		}
	}
	if err := fresh.create(nil); err != nil {
		fresh.close()
		t.Fatal(err)
	}
	s.servers = append(s.servers, fresh)
	return fresh
}

// Redis returns the shared redis-server.
func (s *Shared) Redis(t testing.TB) *RedisServer {
	t.Helper()
	return get(t, s, RedisPrograms, new(RedisServer))
}

// Cluster returns the shared Redis Cluster.
func (s *Shared) Cluster(t testing.TB) *RedisCluster {
	t.Helper()
	return get(t, s, RedisPrograms, new(RedisCluster))
}

// Postgres returns the shared PostgreSQL server.
func (s *Shared) Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	return get(t, s, PostgresPrograms, new(PostgresServer))
}

// PgBouncer returns the shared PgBouncer of the shared PostgreSQL server.
func (s *Shared) PgBouncer(t testing.TB) *PostgresServer {
	t.Helper()
	return &get(t, s, PgBouncerPrograms, &pgBouncer{backend: s.Postgres(t)}).PostgresServer
}

// Close removes the servers.
func (s *Shared) Close() {
	for _, each := range slices.Backward(s.servers) {
		each.close()
	}
}

// Main runs the tests of a package, removes the servers and returns the exit code. An example cannot
// skip itself. So Main skips all examples and prints why, if one of the programs is missing or with
// -short.
func (s *Shared) Main(m *testing.M, programs string) int {
	defer s.Close()
	flag.Parse()
	if err := checkPrograms(programs); err != nil && !isRequired() {
		fmt.Fprintf(os.Stderr, "examples are skipped: %v\n", err)
		_ = flag.Set("test.skip", "^Example") // every test binary has this flag
	}
	return m.Run()
}

// Example is the testing.TB of an Example function that uses a [Shared] server. [Shared.Main] has skipped the examples if they
// cannot run.
type Example struct{ testing.TB }

// Helper does nothing.
func (Example) Helper() {}

// Fatal panics.
func (Example) Fatal(args ...any) { panic(fmt.Sprint(args...)) }
