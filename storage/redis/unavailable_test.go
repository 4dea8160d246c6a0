package redis_test

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage/driver"
)

func TestServerThatCannotServeWritesNothing(t *testing.T) {
	t.Parallel()
	_, p := programOf(t, algo.Per(2, time.Hour))
	for name, c := range map[string]struct {
		prepare func(*testing.T, *servers.RedisServer)
		err     string
	}{
		"full":               {config("maxmemory", "1"), "OOM"},
		"too few replicas":   {config("min-replicas-to-write", "1"), "NOREPLICAS"},
		"replica":            {makeReplica, "READONLY"},
		"stale replica":      {makeStaleReplica, "MASTERDOWN"},
		"loading":            {makeLoading, "LOADING"},
		"busy with a script": {makeBusy, "BUSY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servers.Redis(t, "enable-debug-command yes")
			s := open(t, newClient(t, server.Addr()), "")
			loadScripts(t, s)
			runOK(t, s, oneRequest(p, "there"))
			c.prepare(t, server)
			check := func(err error) {
				t.Helper()
				requireNotApplied(t, err)
				require.ErrorContains(t, err, c.err)
			}
			for n := range 2 {
				_, _, err := s.CompareAndSwap(t.Context(), creatingN(n+1, "a")...)
				check(err)
			}
			for _, b := range []*driver.Batch{oneRequest(p, "a"), requestEach(p, "a", "b")} {
				run(t, s, b)
				check(b.Err)
			}
			if name == "full" {
				require.Equal(t, "2", do(t, server, "DBSIZE"))
			}
		})
	}
}

func config(parameter, value string) func(*testing.T, *servers.RedisServer) {
	return func(t *testing.T, server *servers.RedisServer) { do(t, server, "CONFIG", "SET", parameter, value) }
}

// makeReplica makes the server the replica of a server that does not exist.
func makeReplica(t *testing.T, server *servers.RedisServer) {
	do(t, server, "REPLICAOF", "127.0.0.1", "1")
}

func makeStaleReplica(t *testing.T, server *servers.RedisServer) {
	makeReplica(t, server)
	do(t, server, "CONFIG", "SET", "replica-serve-stale-data", "no")
}

// The Timeout is so long that only the refused connection can end the call.
func TestOnFailureAppliesSoonIfTheServerCannotBeReached(t *testing.T) {
	refusing := []string{refusingAddr(t), refusingAddr(t)}
	for name, client := range map[string]goredis.UniversalClient{
		"TCP":              newClient(t, refusing[0]),
		"one dial attempt": newClientWith(t, goredis.Options{Addr: refusing[0], DialerRetries: 1, ContextTimeoutEnabled: true}),
		"Unix socket":      newClientWith(t, goredis.Options{Network: "unix", Addr: filepath.Join(t.TempDir(), "redis.sock")}),
		"cluster":          goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: refusing}),
		"ring":             goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": refusing[0], "b": refusing[1]}}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() { client.Close() })
			limiter, err := sluice.Options[string]{Timeout: longTimeout, OnFailure: sluice.FailLocal}.New(open(t, client, ""),
				sluice.Rule[string]{Name: "key", Key: func(key string) string { return key }, Spec: "gcra 9/h"})
			require.NoError(t, err)
			began := time.Now()
			d, err := limiter.Allow(t.Context(), "ann")
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.True(t, d.Degraded)
			requireNotApplied(t, d.Err)
			require.ErrorAs(t, d.Err, new(*net.OpError))
			require.Less(t, time.Since(began), longTimeout/2)
		})
	}
}

// refusingAddr returns an address that refuses connections.
func refusingAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// makeLoading makes the server read its data slowly.
func makeLoading(t *testing.T, server *servers.RedisServer) { loadKeys(t, server, 3000) }

// loadKeys makes the server read n keys from its file, each for 10 ms. It answers after each key.
func loadKeys(t *testing.T, server *servers.RedisServer, n int) {
	do(t, server, "EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'key'..i, string.rep('x', 1024)) end", "0", strconv.Itoa(n))
	do(t, server, "CONFIG", "SET", "rdbcompression", "no", "key-load-delay", "10000", "loading-process-events-interval-bytes", "1024")
	go func() { _, _ = server.Do("DEBUG", "RELOAD") }()
	waitForError(t, server, "LOADING", "GET", "key1")
}

// makeBusy makes the server run an endless script. SCRIPT KILL can end it.
func makeBusy(t *testing.T, server *servers.RedisServer) {
	do(t, server, "CONFIG", "SET", "busy-reply-threshold", "1")
	go func() { _, _ = server.Do("EVAL", "while true do end", "0") }()
	waitForError(t, server, "BUSY", "PING")
	t.Cleanup(func() { _, _ = server.Do("SCRIPT", "KILL") })
}

func waitForError(t *testing.T, server *servers.RedisServer, prefix string, command ...string) {
	t.Helper()
	waitFor(t, func() bool {
		_, err := server.Do(command...)
		return err != nil && strings.HasPrefix(err.Error(), prefix)
	})
}

// The connection is refused, so nothing was sent. After a restart without data the store works.
func TestServerThatIsDownWritesNothing(t *testing.T) {
	server := servers.Redis(t)
	s := open(t, newClient(t, server.Addr()), "")
	swap(t, s, creating("a", "x"))
	server.Kill()
	_, p := programOf(t, algo.Per(2, time.Hour))
	b := oneRequest(p, "b")
	run(t, s, b)
	requireNotApplied(t, b.Err)
	_, _, err := s.CompareAndSwap(t.Context(), creating("a", "y"))
	requireNotApplied(t, err)
	require.NoError(t, server.Start())
	runUntilOK(t, s, func() *driver.Batch { return b })
	require.Equal(t, 1, b.Requests[0].Applied)
	swap(t, s, creating("a", "y"))
}
