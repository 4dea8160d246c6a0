package redis_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

// Whatever becomes of a message, the same batch run again is applied once in all.
func TestABatchWhoseReplyIsLostIsAppliedOnce(t *testing.T) {
	policy, p := programOf(t, algo.Per(100, 1000*time.Hour))
	for name, connect := range eager {
		for _, kind := range faultproxy.Kinds() {
			t.Run(name+", "+kind.String(), func(t *testing.T) {
				t.Parallel()
				s, truth, proxy := faulty(t, connect, t.Name())
				for i, b := range []*driver.Batch{allowing(p, "one"), allowing(p, "a", "b"), apart(p, "c", "d")} {
					if name == "ring" && len(b.Keys) > 1 {
						b.Keys[0], b.Keys[1] = driver.Key("tenant", b.Keys[0]), driver.Key("tenant", b.Keys[1])
					}
					if name == "cluster" && len(b.Keys) > 1 {
						b.Keys[0], b.Keys[1] = driver.Key("tenant", b.Keys[0]), driver.Key("tenant", b.Keys[1])
					}
					runs(t, truth, copyOf(p, b)) // the server knows the script
					proxy.Plan(faultproxy.Fault{At: 1, Kind: kind})
					run(t, s, b)
					require.Error(t, b.Err)
					require.ErrorIs(t, b.Err, storage.ErrUnavailable)
					require.NotErrorIs(t, b.Err, storage.ErrNotApplied)
					waitFor(t, func() bool { proxy.Release(); return len(proxy.Hits()) == 1 })
					require.Equal(t, 1, proxy.Seen(), "the client does not send it again")
					if !kind.Applied() {
						for _, key := range b.Keys {
							require.EqualValues(t, 1, usedOf(t, truth, policy, key))
						}
					}
					if kind != faultproxy.LateRequest { // which may come between
						proxy.Plan()
						again(t, s, b)
						for _, r := range b.Requests {
							require.Equal(t, kind.Applied(), r.Applied == driver.Stored, "batch %d", i)
						}
						for _, key := range b.Keys {
							require.EqualValues(t, 2, usedOf(t, truth, policy, key))
						}
					}
				}
			})
		}
	}
}

// copyOf is the same batch under another version.
func copyOf(p *algo.Program, b *driver.Batch) *driver.Batch {
	if len(b.Requests) > 1 {
		return apart(p, b.Keys...)
	}
	return allowing(p, b.Keys...)
}

// again runs a batch until the store is available.
func again(t *testing.T, s driver.Server, b *driver.Batch) {
	t.Helper()
	waitFor(t, func() bool { run(t, s, b); return b.Err == nil })
	require.Nil(t, b.KeyErr)
}

// cutting stands before a server, and closes the first connection on which a script is sent, after that
// many bytes of the reply.
type cutting struct {
	addr string
	left atomic.Int64 // bytes
	cuts atomic.Int64
}

func newCutting(t *testing.T, server string) *cutting {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	c := &cutting{addr: listener.Addr().String()}
	c.left.Store(-1)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go c.serve(client, server)
		}
	}()
	return c
}

func (c *cutting) serve(client net.Conn, server string) {
	defer client.Close()
	up, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer up.Close()
	var scripted atomic.Bool
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := client.Read(buffer)
			if err != nil {
				up.Close()
				return
			}
			if bytes.Contains(buffer[:n], []byte("eval")) {
				scripted.Store(true)
			}
			if _, err = up.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := up.Read(buffer)
		if left := c.left.Load(); err == nil && scripted.Load() && left >= 0 && int(left) < n && c.left.CompareAndSwap(left, -1) {
			c.cuts.Add(1)
			_, _ = client.Write(buffer[:left])
			return
		}
		if _, failed := client.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// A reply that is cut after any number of bytes is a lost one.
func TestAReplyCutAfterAnyByteIsLost(t *testing.T) {
	server := shared.Redis(t)
	proxy := newCutting(t, server.Addr())
	client := goredis.NewClient(&goredis.Options{Addr: proxy.addr, MaxRetries: 5, DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() { client.Close() })
	s, truth := open(t, client, t.Name()), open(t, newClient(t, server.Addr()), t.Name())
	policy, p := programOf(t, algo.Per(1000, 1000*time.Hour))
	for name, batches := range map[string]func() []*driver.Batch{
		"one": func() []*driver.Batch { return []*driver.Batch{allowing(p, "a")} },
		"two": func() []*driver.Batch { return []*driver.Batch{apart(p, "b", "c")} },
		"three": func() []*driver.Batch {
			return []*driver.Batch{allowing(p, "d"), apart(p, "e", "f"), allowing(p, "g")}
		},
	} {
		runs(t, s, batches()...)
		expected := int64(1)
		for at := int64(0); ; at++ {
			all, cuts := batches(), proxy.cuts.Load()
			proxy.left.Store(at)
			run(t, s, all...)
			proxy.left.Store(-1)
			expected++
			for _, b := range all {
				if b.Err != nil {
					require.NotErrorIs(t, b.Err, storage.ErrNotApplied, "%s, cut after %d bytes", name, at)
					require.ErrorIs(t, b.Err, storage.ErrUnavailable)
					again(t, s, b)
					require.Equal(t, driver.Stored, b.Requests[0].Applied)
				} else {
					require.Equal(t, 1, b.Requests[0].Applied)
				}
				for _, key := range b.Keys {
					require.Equal(t, expected, usedOf(t, truth, policy, key))
				}
			}
			if proxy.cuts.Load() == cuts { // the reply was shorter
				require.Greater(t, at, int64(20))
				break
			}
		}
	}
}

// A proxy may report an error of its own after it has sent a script on.
func TestAnErrorOfAProxyProvesNothingAboutABatch(t *testing.T) {
	server := shared.Redis(t).Addr()
	truth := open(t, newClient(t, server), t.Name())
	_, p := programOf(t, algo.Per(2, time.Hour))
	runs(t, truth, allowing(p, "warm"))
	client := goredis.NewClient(&goredis.Options{Addr: impatient(t, server), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { client.Close() })
	s, err := redis.New(client, redis.Options{Prefix: t.Name(), Spread: true})
	require.NoError(t, err)
	b := allowing(p, "a")
	run(t, s, b)
	require.ErrorIs(t, b.Err, storage.ErrUnavailable)
	require.NotErrorIs(t, b.Err, storage.ErrNotApplied)
	again(t, s, b)
	require.Equal(t, driver.Stored, b.Requests[0].Applied)
}

// A batch that waits for a connection until its deadline was never sent, and never will be.
func TestABatchWithoutAConnectionIsNotSent(t *testing.T) {
	client := goredis.NewClient(&goredis.Options{Addr: shared.Redis(t).Addr(), PoolSize: 1, PoolTimeout: time.Minute, ReadTimeout: -1})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, t.Name())
	policy, p := programOf(t, algo.Per(2, time.Hour))
	runs(t, s, allowing(p, "a"))
	busy := client.Conn()
	t.Cleanup(func() { busy.Close() })
	require.NoError(t, busy.Ping(t.Context()).Err()) // takes the connection
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	begun := time.Now()
	b, other := allowing(p, "a"), allowing(p, "b", "c")
	s.Run(ctx, b, other)
	require.Less(t, time.Since(begun), moment+slack)
	refuses(t, b.Err)
	refuses(t, other.Err)
	require.NoError(t, busy.Close())
	runs(t, s, allowing(p, "c"))
	require.EqualValues(t, 1, usedOf(t, s, policy, "a"))
	require.EqualValues(t, 0, usedOf(t, s, policy, "b"))
}

// Nobody listens: nothing was sent.
func TestABatchOnARefusedConnectionIsNotApplied(t *testing.T) {
	server := servers.Redis(t)
	s := open(t, newClient(t, server.Addr()), "")
	server.Kill()
	_, p := programOf(t, algo.Per(2, time.Hour))
	b := allowing(p, "a")
	run(t, s, b)
	refuses(t, b.Err)
	require.NoError(t, server.Start())
	again(t, s, b)
	require.Equal(t, 1, b.Requests[0].Applied)
}

// Run ends with its deadline, whatever timeouts the client has.
func TestRunEndsWithItsDeadline(t *testing.T) {
	server := servers.Redis(t)
	_, p := programOf(t, algo.Per(2, time.Hour))
	for name, client := range map[string]goredis.UniversalClient{
		"as it comes":             goredis.NewClient(&goredis.Options{Addr: server.Addr()}),
		"no timeouts":             goredis.NewClient(&goredis.Options{Addr: server.Addr(), ReadTimeout: -1, WriteTimeout: -1}),
		"ContextTimeoutEnabled":   goredis.NewClient(&goredis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true}),
		"cluster":                 goredis.NewClusterClient(&goredis.ClusterOptions{ClusterSlots: oneNode(server.Addr())}),
		"cluster, by its context": goredis.NewClusterClient(&goredis.ClusterOptions{ClusterSlots: oneNode(server.Addr()), ContextTimeoutEnabled: true}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { client.Close() })
			s := open(t, client, t.Name())
			runs(t, s, allowing(p, "a"))
			server.Pause()
			defer server.Resume()
			const deadline = 200 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			begun := time.Now()
			b, other := allowing(p, "a"), allowing(p, "b")
			s.Run(ctx, b, other)
			require.Less(t, time.Since(begun), deadline+slack)
			require.Error(t, b.Err)
			require.Error(t, other.Err)
			require.NotErrorIs(t, b.Err, storage.ErrNotApplied)
		})
	}
}

// What is no reply of the script is not taken for one.
func TestServersThatCannotServeRefuseABatch(t *testing.T) {
	_, p := programOf(t, algo.Per(2, time.Hour))
	for says, set := range map[string][]string{
		"OOM":        {"CONFIG", "SET", "maxmemory", "1"},
		"NOREPLICAS": {"CONFIG", "SET", "min-replicas-to-write", "1"},
		"READONLY":   {"REPLICAOF", "127.0.0.1", "1"},
	} {
		server := servers.Redis(t)
		s := open(t, newClient(t, server.Addr()), "")
		runs(t, s, allowing(p, "a"))
		do(t, server, set...)
		for _, b := range []*driver.Batch{allowing(p, "a"), apart(p, "a", "b")} {
			run(t, s, b)
			require.ErrorContains(t, b.Err, says)
			refuses(t, b.Err)
		}
	}
}
