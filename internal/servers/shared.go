package servers

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared holds servers that all tests of a package use. Each is started at its first use. The zero
// value is valid. Tests that share a server must use different keys and tables, and must not stop it.
type Shared struct {
	redis     once[*RedisServer]
	sentinel  once[*RedisSentinel]
	cluster   once[*RedisCluster]
	postgres  once[*PostgresServer]
	pgBouncer once[*PgBouncerServer]
}

// Redis returns the shared redis-server.
func (s *Shared) Redis(t testing.TB) *RedisServer {
	t.Helper()
	return s.redis.get(t, RedisPrograms, new(RedisServer))
}

// Sentinel returns the shared primary, replica and sentinel.
func (s *Shared) Sentinel(t testing.TB) *RedisSentinel {
	t.Helper()
	return s.sentinel.get(t, SentinelPrograms, new(RedisSentinel))
}

// Cluster returns the shared Redis Cluster.
func (s *Shared) Cluster(t testing.TB) *RedisCluster {
	t.Helper()
	return s.cluster.get(t, RedisPrograms, new(RedisCluster))
}

// Postgres returns the shared PostgreSQL server.
func (s *Shared) Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	return s.postgres.get(t, PostgresPrograms, new(PostgresServer))
}

// PgBouncer returns the shared PgBouncer of the shared PostgreSQL server.
func (s *Shared) PgBouncer(t testing.TB) *PgBouncerServer {
	t.Helper()
	need(t, PgBouncerPrograms)
	return s.pgBouncer.get(t, PgBouncerPrograms, &PgBouncerServer{backend: s.Postgres(t)})
}

// Close removes the servers.
func (s *Shared) Close() {
	s.pgBouncer.close()
	s.postgres.close()
	s.cluster.close()
	s.sentinel.close()
	s.redis.close()
}

// Main runs the tests of a package, removes the servers and returns the exit code. An example cannot
// skip itself. So Main skips all examples and prints why, if one of the programs is missing or with
// -short.
func (s *Shared) Main(m *testing.M, programs string) int {
	defer s.Close()
	flag.Parse()
	if err := checkPrograms(programs); err != nil && !isRequired() {
		fmt.Fprintf(os.Stderr, "examples are skipped: %v\n", err)
		if err := flag.Set("test.skip", "^Example"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// Example is the testing.TB of an Example function that uses a [Shared] server.
type Example struct{ testing.TB }

// Helper does nothing.
func (Example) Helper() {}

// Skip panics, because [Shared.Main] has skipped the examples if they cannot run.
func (Example) Skip(args ...any) { panic(fmt.Sprint(args...)) }

// Fatal panics.
func (Example) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// Cleanup panics, because nothing runs it after an example. An example must use a [Shared] server.
func (Example) Cleanup(func()) { panic("servers: an example must use a Shared server") }

// once creates a server at the first call of get. Each call returns the same server or fails with the
// same error.
type once[S server] struct {
	once   sync.Once
	server S
	err    error
}

func (o *once[S]) get(t testing.TB, programs string, s S) S {
	t.Helper()
	need(t, programs)
	o.once.Do(func() {
		if o.err = s.create(nil); o.err != nil {
			s.close()
		}
		o.server = s
	})
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.server
}

func (o *once[S]) close() {
	o.once.Do(func() { o.err = errors.New("servers: the shared servers are closed") })
	if o.err == nil {
		o.server.close()
	}
}
