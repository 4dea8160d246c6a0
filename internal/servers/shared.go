package servers

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared holds servers that all tests of a package use, each started when it
// is first asked for. The zero value is ready. Tests that share a server must
// keep their keys and tables apart and leave the server running.
type Shared struct {
	redis     once[*RedisServer]
	sentinel  once[*RedisSentinel]
	cluster   once[*RedisCluster]
	postgres  once[*PostgresServer]
	pgBouncer once[*PgBouncerServer]
}

// Redis is the package's redis-server.
func (s *Shared) Redis(t T) *RedisServer {
	t.Helper()
	return s.redis.get(t, RedisPrograms, func() (*RedisServer, error) { return newRedis() })
}

// Sentinel is the package's primary, replica and sentinel.
func (s *Shared) Sentinel(t T) *RedisSentinel {
	t.Helper()
	return s.sentinel.get(t, SentinelPrograms, func() (*RedisSentinel, error) { return newSentinel(nil) })
}

// Cluster is the package's Redis Cluster.
func (s *Shared) Cluster(t T) *RedisCluster {
	t.Helper()
	return s.cluster.get(t, RedisPrograms, func() (*RedisCluster, error) { return newCluster(nil) })
}

// Postgres is the package's Postgres.
func (s *Shared) Postgres(t T) *PostgresServer {
	t.Helper()
	return s.postgres.get(t, PostgresPrograms, func() (*PostgresServer, error) { return newPostgres(nil) })
}

// PgBouncer is the package's PgBouncer, in front of the package's Postgres.
func (s *Shared) PgBouncer(t T) *PgBouncerServer {
	t.Helper()
	need(t, PgBouncerPrograms)
	behind := s.Postgres(t)
	return s.pgBouncer.get(t, PgBouncerPrograms, func() (*PgBouncerServer, error) { return newPgBouncer(behind, nil) })
}

// Close ends the servers.
func (s *Shared) Close() {
	s.pgBouncer.close()
	s.postgres.close()
	s.cluster.close()
	s.sentinel.close()
	s.redis.close()
}

// Main runs the tests of a package, ends the servers and returns the code to
// exit with. Examples cannot skip themselves. If one of the programs that they need is
// missing, or with -short, Main leaves all examples out and prints why.
func (s *Shared) Main(m *testing.M, programs string) int {
	defer s.Close()
	flag.Parse()
	if err := leftOut(programs); err != nil && (testing.Short() || !required()) {
		fmt.Fprintf(os.Stderr, "examples are left out: %v\n", err)
		if err := flag.Set("test.skip", "^Example"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// Example takes the place of a test where there is none: in an Example that
// uses a [Shared] server.
type Example struct{}

// Helper does nothing.
func (Example) Helper() {}

// Skip panics: [Shared.Main] has left the examples out where they cannot run.
func (Example) Skip(args ...any) { panic(fmt.Sprint(args...)) }

// Fatal panics.
func (Example) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// Cleanup panics too: an example has no end at which to run it, so it must not
// start a server of its own.
func (Example) Cleanup(func()) { panic("servers: an example uses a Shared server") }

// once starts a server at the first call, and gives every caller the same
// server or the same error.
type once[S server] struct {
	mu    sync.Mutex
	begun bool
	found S
	err   error
}

func (o *once[S]) get(t T, programs string, begin func() (S, error)) S {
	t.Helper()
	need(t, programs)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.begun {
		o.begun = true
		o.found, o.err = begin()
	}
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.found
}

func (o *once[S]) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begun && o.err == nil {
		o.found.close()
	}
}
