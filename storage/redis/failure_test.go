package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

// reply is an error reply of a server.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// Other tests get errors from servers.
func TestErrorsAreClassified(t *testing.T) {
	for _, c := range []struct {
		err                     error
		unavailable, notApplied bool
	}{
		{fmt.Errorf("on connecting: %w", reply("ERR max number of clients reached")), true, true},
		{reply("NOAUTH Authentication required."), false, true},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true, true},
		{goredis.ErrPoolTimeout, true, true},
		{goredis.ErrClosed, false, true},
		{&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, true, false},
	} {
		err := redis.Classify(c.err)
		require.ErrorIs(t, err, c.err)
		require.Equal(t, c.unavailable, errors.Is(err, storage.ErrUnavailable), c.err)
		require.Equal(t, c.notApplied, errors.Is(err, storage.ErrNotApplied), c.err)
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for _, client := range []goredis.UniversalClient{nil, (*goredis.Client)(nil), (*goredis.ClusterClient)(nil)} {
		_, err := redis.New(client, redis.Options{})
		require.ErrorContains(t, err, "must not be nil")
	}
	_, err := redis.New(newClient(t, "127.0.0.1:1"), redis.Options{Prefix: "a{b"})
	require.ErrorContains(t, err, "must not contain braces")
}

// A server that cannot serve writes nothing, and its reason is in the error.
func TestServerThatCannotServeWritesNothing(t *testing.T) {
	t.Parallel()
	config := func(words ...string) func(*testing.T, *servers.RedisServer) {
		return func(t *testing.T, server *servers.RedisServer) {
			do(t, server, append([]string{"CONFIG", "SET"}, words...)...)
		}
	}
	replica := func(t *testing.T, server *servers.RedisServer) { do(t, server, "REPLICAOF", "127.0.0.1", "1") } // of no server
	for reason, prepare := range map[string]func(*testing.T, *servers.RedisServer){
		"OOM":        config("maxmemory", "1"),
		"NOREPLICAS": config("min-replicas-to-write", "1"),
		"READONLY":   replica,
		"MASTERDOWN": func(t *testing.T, server *servers.RedisServer) {
			replica(t, server)
			config("replica-serve-stale-data", "no")(t, server)
		},
		"LOADING": makeLoading,
		"BUSY":    makeBusy,
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			server := servers.Redis(t, "enable-debug-command yes")
			s := open(t, newClient(t, server.Addr()), "")
			swap(t, s, creating("there", "x")) // loads the scripts
			runOK(t, s, oneRequest("there too"))
			prepare(t, server)
			check := func(err error) {
				t.Helper()
				requireNotApplied(t, err)
				require.ErrorContains(t, err, reason)
			}
			for n := range 2 {
				_, _, err := s.CompareAndSwap(t.Context(), creatingN(n+1, "a")...)
				check(err)
				_, _, err = s.CompareAndSwap(t.Context(), storage.Swap{Key: []string{"a", "there"}[n], Old: storage.NewVersion()}) // as a probe
				check(err)
			}
			check(runErr(t.Context(), s, oneRequest("a")))
			check(runErr(t.Context(), s, requestEach("a", "b")))
			if reason == "OOM" {
				require.Equal(t, "2", do(t, server, "DBSIZE"))
			}
		})
	}
}

// makeLoading makes the server read 3000 keys from its file, each for 10 ms. It answers after each key.
func makeLoading(t *testing.T, server *servers.RedisServer) {
	do(t, server, "EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'key'..i, string.rep('x', 1024)) end", "0", "3000")
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

// By these errors the limiter knows that no call can reach the server. They end the call, and not its deadline.
func TestServerThatCannotBeReachedIsADialError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close()) // from now on the address refuses connections
	refusing := l.Addr().String()
	for name, client := range map[string]goredis.UniversalClient{
		"TCP":              newClient(t, refusing),
		"one dial attempt": newClientWith(t, goredis.Options{Addr: refusing, DialerRetries: 1, ContextTimeoutEnabled: true}),
		"Unix socket":      newClientWith(t, goredis.Options{Network: "unix", Addr: filepath.Join(t.TempDir(), "redis.sock")}),
		"cluster":          goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{refusing}}),
		"ring":             goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": refusing}}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() { client.Close() })
			ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
			defer cancel()
			began := time.Now()
			err := runErr(ctx, open(t, client, ""), oneRequest("ann"))
			requireNotApplied(t, err)
			var op *net.OpError
			require.ErrorAs(t, err, &op)
			require.True(t, op.Op == "dial" && !op.Timeout(), op)
			require.Less(t, time.Since(began), longTimeout/2)
		})
	}
}

// A server that refuses a connection or a command says why. Every error contains that. The limiter keeps it.
func TestErrorsHaveTheReasonOfTheServer(t *testing.T) {
	t.Parallel()
	const full = "max number of clients reached"
	holdsTheLastConnection := func(t *testing.T, server *servers.RedisServer) {
		require.NoError(t, newClient(t, server.Addr()).Ping(t.Context()).Err())
		do(t, server, "CONFIG", "SET", "maxclients", "1")
	}
	withPassword := func(t *testing.T, server *servers.RedisServer) { do(t, server, "CONFIG", "SET", "requirepass", "x") }
	withoutRights := func(t *testing.T, server *servers.RedisServer) {
		do(t, server, append([]string{"ACL", "SETUSER", "limiter", "reset", "on", ">x"}, allBut("get", "eval", "evalsha")...)...)
	}
	none := func(*testing.T, *servers.RedisServer) {}
	for name, c := range map[string]struct {
		reason  string
		prepare func(*testing.T, *servers.RedisServer)
		options goredis.Options
	}{
		"too many clients":                {full, holdsTheLastConnection, goredis.Options{}},
		"too many clients, protocol 2":    {full, holdsTheLastConnection, goredis.Options{Protocol: 2, DisableIdentity: true}},
		"no password":                     {"NOAUTH", withPassword, goredis.Options{}},
		"wrong password":                  {"WRONGPASS", withPassword, goredis.Options{Password: "y"}},
		"unknown database":                {"DB index is out of range", none, goredis.Options{DB: 99}},
		"no right to run scripts and GET": {"NOPERM", withoutRights, goredis.Options{Username: "limiter", Password: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servers.Redis(t)
			c.prepare(t, server)
			c.options.Addr = server.Addr()
			s := open(t, newClientWith(t, c.options), "")
			require.Eventually(t, func() bool { // on a busy machine, the server does not give the reason in time
				_, _, err := s.Load(t.Context(), "k")
				return err != nil && strings.Contains(err.Error(), c.reason)
			}, time.Minute, time.Millisecond)
			_, _, err := s.CompareAndSwap(t.Context(), creating("k", "x"))
			for _, err := range []error{err, runErr(t.Context(), s, oneRequest("k"))} {
				require.ErrorContains(t, err, c.reason)
				require.ErrorIs(t, err, storage.ErrNotApplied)
			}
		})
	}
}

// The server has a list or a text that is no record. Errors are logged, and keys may be secret.
func TestForeignValuesAreErrors(t *testing.T) {
	server := shared.Redis(t)
	for _, keys := range []int{1, 2} {
		s := open(t, newClient(t, server.Addr()), t.Name()+strconv.Itoa(keys))
		do(t, server, "LPUSH", s.NameOf("secret list"), "x")
		do(t, server, "SET", s.NameOf("secret short"), "x")
		do(t, server, "SET", s.NameOf("secret empty"), "")
		do(t, server, "SET", s.NameOf("secret version 0"), strings.Repeat("\x00", 8)+"state")
		for key, text := range map[string]string{
			"secret list": "redis: WRONGTYPE", "secret short": "not a record", "secret empty": "not a record", "secret version 0": "not a record",
		} {
			_, _, load := s.Load(t.Context(), key)
			_, swapped, swap := s.CompareAndSwap(t.Context(), creatingN(keys, key)...)
			require.False(t, swapped)
			requireRefused(t, swap)
			require.Empty(t, stored(t, s, key+" 2"), "all or nothing")
			b := requestEach(key, "good")
			s.Run(t.Context(), b)
			require.NoError(t, b.Err)
			require.NoError(t, b.KeyErr[1], "other requests are decided")
			for _, err := range []error{load, swap, b.KeyErr[0]} {
				require.ErrorContains(t, err, text)
				require.NotContains(t, err.Error(), "secret")
				var of *storage.KeyError
				if text == "not a record" {
					require.ErrorAs(t, err, &of)
					require.Equal(t, key, of.Key)
				}
			}
		}
		require.Equal(t, "1", do(t, server, "LLEN", s.NameOf("secret list")))
	}
}

// The server quotes the keys in its error.
func TestServerWithoutScriptsIsAnErrorWithoutKeys(t *testing.T) {
	server := servers.Redis(t, "rename-command EVALSHA \"\"", "rename-command EVAL \"\"")
	for _, proxy := range []bool{false, true} {
		s, err := redis.New(newClient(t, server.Addr()), redis.Options{Proxy: proxy})
		require.NoError(t, err)
		_, _, err = s.CompareAndSwap(t.Context(), creating("secret", "x"))
		for _, err := range []error{err, runErr(t.Context(), s, oneRequest("secret"))} {
			require.ErrorContains(t, err, "unknown command 'evalsha'")
			require.NotContains(t, err.Error(), "secret"[:4])
		}
	}
}

// If the server refuses a write of a script after the first one, the other keys may have been written.
func TestRefusedLaterWriteIsPartial(t *testing.T) {
	server := servers.Redis(t)
	direct := open(t, newClient(t, server.Addr()), "")
	s := open(t, newClientOf(t, server, "no-del", allBut("del")...), "")
	for _, partial := range []bool{true, false} {
		put, del := creating(fmt.Sprint(partial, " a"), "x"), creating(fmt.Sprint(partial, " b"), "x")
		swap(t, direct, put, del)
		swaps := append(updating(put), storage.Swap{Key: del.Key, Old: del.New.Version})
		if !partial {
			swaps[0], swaps[1] = swaps[1], swaps[0] // the first write is refused
		}
		_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
		require.False(t, swapped)
		require.Equal(t, partial, errors.Is(err, storage.ErrPartialWrite), "%v", err)
		require.Equal(t, !partial, errors.Is(err, storage.ErrNotApplied), "%v", err)
		require.Equal(t, partial, stored(t, direct, put.Key) == "updated")
		require.Equal(t, "x", stored(t, direct, del.Key))
	}
	runOK(t, s, oneRequest("b"))
	b := requestEach("a", "b", "c")
	refund(&b.Requests[1])
	run(t, s, b)
	require.NoError(t, b.Err)
	require.ErrorIs(t, b.KeyErr[1], storage.ErrPartialWrite)
	require.NotErrorIs(t, b.KeyErr[1], storage.ErrNotApplied)
	require.NotContains(t, b.KeyErr[1].Error(), s.NameOf("b"), "keys may be secret")
	require.NoError(t, errors.Join(b.KeyErr[0], b.KeyErr[2]))
	for _, key := range b.Keys {
		require.Equal(t, 1, usedOf(t, s, key))
	}
}

func TestRefusedFirstWriteChangesNothing(t *testing.T) {
	server := shared.Redis(t)
	direct := sharedStore(t)
	for command, ttl := range map[string]time.Duration{"set": 0, "psetex": time.Hour} {
		s := open(t, newClientOf(t, server, "no-"+command, allBut(command)...), direct.NameOf(""))
		var errs []error
		for keys := 1; keys <= 2; keys++ {
			swaps := creatingN(keys, "a")
			for i := range swaps {
				swaps[i].TTL = ttl
			}
			_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
			require.False(t, swapped)
			errs = append(errs, err)
		}
		if command != "set" {
			for _, b := range []*driver.Batch{oneRequest("a"), oneRequest("a", "a 2")} {
				run(t, s, b)
				errs = append(errs, b.Err)
			}
		}
		for _, err := range errs {
			requireRefused(t, err)
			require.Regexp(t, "The user|User no-", err.Error(), "Redis 7.0, and later")
		}
		require.Empty(t, stored(t, direct, "a"))
	}
}

// closedConn is a connection that the server has closed.
type closedConn struct{ net.Conn }

func (closedConn) Read([]byte) (int, error)    { return 0, io.EOF }
func (closedConn) Write(b []byte) (int, error) { return len(b), nil }

// A call asks a server that closes connections for the reason, and the server hangs. No call takes longer than its deadline,
// although the dialer of go-redis ignores contexts with TLS.
func TestNoCallWaitsForTheReasonBeyondItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := goredis.NewClient(&goredis.Options{
			Addr: "127.0.0.1:1", // not a name, whose look-up would bind the resolver to the bubble
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
				if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= time.Second { // not that of the client
					time.Sleep(5 * time.Second)
				}
				conn, _ := net.Pipe()
				return closedConn{conn}, nil
			},
			MaxRetries: -1, DialTimeout: time.Minute,
		})
		defer client.Close()
		s, err := redis.New(client, redis.Options{})
		require.NoError(t, err)
		requireInTime := func(timeout time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			began := time.Now()
			_, _, err := s.Load(ctx, "k")
			assert.ErrorIs(t, err, storage.ErrUnavailable)
			assert.LessOrEqual(t, time.Since(began), timeout)
		}
		go requireInTime(time.Second)
		time.Sleep(time.Millisecond)
		requireInTime(20 * time.Millisecond) // it does not wait for the other call either
		time.Sleep(time.Minute)
	})
}
