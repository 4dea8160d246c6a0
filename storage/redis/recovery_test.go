package redis_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
)

// Several groups share a pipeline whose scripts are all unknown, as others
// flush them again and again.
func TestScriptFlush(t *testing.T) {
	server := shared.Redis(t)
	s := open(t, newClient(t, server.Addr()), "flush:")
	stop := make(chan struct{})
	var flushing sync.WaitGroup
	flushing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = server.Do("SCRIPT", "FLUSH")
			}
		}
	})
	for i := range 200 {
		var swaps []storage.Swap
		for j := range 1 + i%3 {
			swaps = append(swaps, creating(fmt.Sprint(i, " ", j), "x"))
		}
		create(t, s, swaps...)
	}
	close(stop)
	flushing.Wait()
}

func TestRestartWithEmptyData(t *testing.T) {
	server := servers.Redis(t)
	s := open(t, newClient(t, server.Addr()), "restart:")
	first := creating("a", "before")
	create(t, s, first)
	server.Kill()

	_, _, err := s.CompareAndSwap(t.Context(), creating("a", "during"))
	require.ErrorIs(t, err, storage.ErrUnavailable)

	require.NoError(t, server.Start())
	next := creating("a", "after")
	next.Old = first.New.Version
	current, swapped, err := s.CompareAndSwap(t.Context(), next)
	require.NoError(t, err)
	require.False(t, swapped)
	require.Equal(t, []storage.Record{{}}, current)
	create(t, s, creating("a", "after"))
	require.Equal(t, "after", stored(t, s, "a"))
}

// Nobody listens: nothing was sent.
func TestRefusedConnections(t *testing.T) {
	server := servers.Redis(t)
	server.Kill()
	_, _, err := open(t, newClient(t, server.Addr()), "").CompareAndSwap(t.Context(), creating("a", "x"))
	refuses(t, err)
}

func TestReplica(t *testing.T) {
	server := servers.Redis(t, "replicaof 127.0.0.1 1") // who never answers
	s := open(t, newClient(t, server.Addr()), "")
	_, _, err := s.CompareAndSwap(t.Context(), creating("a", "x"))
	refuses(t, err)
	require.ErrorContains(t, err, "READONLY")
	_, _, err = s.CompareAndSwap(t.Context(), creating("a", "x"), creating("b", "x"))
	refuses(t, err)
	do(t, server, "REPLICAOF", "NO", "ONE")
	create(t, s, creating("a", "x"))
}

func TestServersThatCannotServe(t *testing.T) {
	for name, c := range map[string]struct {
		set  []string
		says string
	}{
		"full":               {[]string{"CONFIG", "SET", "maxmemory", "1"}, "OOM"},
		"too few replicas":   {[]string{"CONFIG", "SET", "min-replicas-to-write", "1"}, "NOREPLICAS"},
		"stale replica":      {[]string{"CONFIG", "SET", "replica-serve-stale-data", "no"}, "MASTERDOWN"},
		"loading":            {nil, "LOADING"},
		"busy with a script": {nil, "BUSY"},
	} {
		t.Run(name, func(t *testing.T) {
			server := servers.Redis(t, "enable-debug-command yes")
			s := open(t, newClient(t, server.Addr()), "")
			switch name {
			case "stale replica":
				do(t, server, "REPLICAOF", "127.0.0.1", "1")
			case "loading":
				load(t, server)
			case "busy with a script":
				busy(t, server)
			}
			if c.set != nil {
				do(t, server, c.set...)
			}
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			_, _, err := s.CompareAndSwap(ctx, creating("a", "x"))
			refuses(t, err)
			require.ErrorContains(t, err, c.says)
		})
	}
}

// refuses requires an error that tells to try again later, and that nothing was
// applied.
func refuses(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.ErrorIs(t, err, storage.ErrNotApplied)
}

// load makes the server read its data slowly.
func load(t *testing.T, server *servers.RedisServer) {
	do(t, server, "EVAL", "for i = 1, 3000 do redis.call('SET', 'key'..i, i) end", "0")
	do(t, server, "CONFIG", "SET", "key-load-delay", "10000", "loading-process-events-interval-bytes", "1024")
	go func() { _, _ = server.Do("DEBUG", "RELOAD") }()
	require.Eventually(t, func() bool {
		_, err := server.Do("GET", "key1")
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	}, long, time.Millisecond)
}

// busy makes the server run a script without an end, which it can be told to
// kill.
func busy(t *testing.T, server *servers.RedisServer) {
	do(t, server, "CONFIG", "SET", "busy-reply-threshold", "1")
	go func() { _, _ = server.Do("EVAL", "while true do end", "0") }()
	require.Eventually(t, func() bool {
		_, err := server.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	}, long, time.Millisecond)
	t.Cleanup(func() { _, _ = server.Do("SCRIPT", "KILL") })
}

// What is stored under a name of ours, and is no record, is never taken for one
// nor overwritten.
func TestForeignValues(t *testing.T) {
	server := shared.Redis(t)
	s := open(t, newClient(t, server.Addr()), "foreign:")
	for _, value := range []string{"", "short"} {
		do(t, server, "SET", s.NameOf("a"), value)
		_, swapped, err := s.CompareAndSwap(t.Context(), creating("a", "x"))
		require.False(t, swapped, "%q", value)
		require.ErrorIs(t, err, storage.ErrNotApplied)
		require.Equal(t, value, do(t, server, "GET", s.NameOf("a")))
	}
	do(t, server, "DEL", s.NameOf("a"))
	do(t, server, "LPUSH", s.NameOf("a"), "x")
	_, _, err := s.CompareAndSwap(t.Context(), creating("a", "x"))
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.NotErrorIs(t, err, storage.ErrUnavailable)
}
