package redis_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

// oneNode is a cluster of one node.
func oneNode(addr string) func(context.Context) ([]goredis.ClusterSlot, error) {
	return func(context.Context) ([]goredis.ClusterSlot, error) {
		return []goredis.ClusterSlot{{Start: 0, End: 16383, Nodes: []goredis.ClusterNode{{Addr: addr}}}}, nil
	}
}

// clients retry commands this often, and wait a short time for a reply. They have one connection.
func clients(t *testing.T, addr string, retries int) map[string]goredis.UniversalClient {
	const wait = shortTimeout
	all := map[string]goredis.UniversalClient{
		"single": goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: retries, ReadTimeout: wait, PoolSize: 1, PoolTimeout: time.Minute}),
		"cluster": goredis.NewClusterClient(&goredis.ClusterOptions{ClusterSlots: oneNode(addr), MaxRedirects: retries, MaxRetries: retries,
			ReadTimeout: wait, PoolSize: 1, PoolTimeout: time.Minute}),
		"ring": goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"shard": addr}, MaxRetries: retries, ReadTimeout: wait, PoolSize: 1,
			PoolTimeout: time.Minute}),
	}
	for _, client := range all {
		t.Cleanup(func() { client.Close() })
	}
	return all
}

// writes are calls that write the keys a and b of one group. A write that fails returns a single error.
var writes = map[string]func(ctx context.Context, s *redis.Store, a, b string) error{
	"swap": func(ctx context.Context, s *redis.Store, a, b string) error {
		_, _, err := s.CompareAndSwap(ctx, creating(a, "x"), creating(b, "x"))
		return err
	},
	"request":  func(ctx context.Context, s *redis.Store, a, b string) error { return runErr(ctx, s, oneRequest(a, b)) },
	"requests": func(ctx context.Context, s *redis.Store, a, b string) error { return runErr(ctx, s, requestEach(a, b)) },
}

func runErr(ctx context.Context, s *redis.Store, b *driver.Batch) error {
	s.Run(ctx, b)
	return errors.Join(append(b.KeyErr, b.Err)...)
}

// A write that meets a fault is applied at most once, because the client does not send it again. The error tells whether
// it was applied, and it is all or nothing.
func TestClientDoesNotRetryAWrite(t *testing.T) {
	t.Parallel()
	server := shared.Redis(t)
	direct := sharedStore(t)
	for _, write := range writes { // loads the scripts
		require.NoError(t, write(t.Context(), direct, textOf("warm", "a"), textOf("warm", "b")))
	}
	for _, kind := range faultproxy.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			proxy := faultproxy.Redis(t, server.Addr())
			proxy.Only(isWrite)
			for name, client := range clients(t, proxy.Addr(), 5) {
				s := open(t, client, direct.NameOf(""))
				for call, write := range writes {
					what := name + ", " + kind.String() + ", " + call
					a, b := textOf(what, "a"), textOf(what, "b")
					waitFor(t, func() bool { _, _, err := s.Load(t.Context(), a); return err == nil })
					proxy.Plan(faultproxy.Fault{At: 1, Kind: kind})
					requireUnknown(t, write(t.Context(), s, a, b))
					waitFor(t, func() bool { proxy.Release(); return proxy.Hits() == 1 })
					require.Equal(t, 1, proxy.Exchanges(), "%s: the client must not retry a write", what)
					if kind != faultproxy.LateRequest { // it may be applied meanwhile
						require.Equal(t, kind.Applied(), stored(t, direct, a) != "", what)
						require.Equal(t, kind.Applied(), stored(t, direct, b) != "", what)
					}
					proxy.Plan()
					waitFor(t, func() bool { return write(t.Context(), s, a, b) == nil })
					require.NotEmpty(t, stored(t, direct, a), what)
				}
			}
		})
	}
}

func isWrite(request []byte) bool { return bytes.Contains(request, []byte("\r\neval")) }

// The server does not know the script, so the swap is sent twice. The fault is in the second command.
func TestClientNeverRetriesAWriteAfterUnknownScript(t *testing.T) {
	server := servers.Redis(t)
	for _, kind := range []faultproxy.Kind{faultproxy.DropRequest, faultproxy.DropReply, faultproxy.CutReply} {
		proxy := faultproxy.Redis(t, server.Addr())
		s := open(t, clients(t, proxy.Addr(), 5)["single"], kind.String())
		do(t, server, "SCRIPT", "FLUSH")
		proxy.Only(isWrite)
		proxy.Plan(faultproxy.Fault{At: 2, Kind: kind})
		_, _, err := s.CompareAndSwap(t.Context(), creating("a", "x"))
		requireUnknown(t, err)
		require.Equal(t, 2, proxy.Exchanges())
		require.Equal(t, kind.Applied(), stored(t, s, "a") != "")
	}
}

// The fault is in the handshake of the connection, so the command was not sent and is never sent
// later.
func TestFailedHandshakeSendsNoCommand(t *testing.T) {
	direct := sharedStore(t)
	for _, kind := range faultproxy.Kinds() {
		for _, name := range []string{"single", "cluster"} {
			for call, write := range writes {
				what := name + ", " + kind.String() + ", " + call
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					proxy := faultproxy.Redis(t, shared.Redis(t).Addr())
					proxy.Only(func(request []byte) bool { return bytes.Contains(bytes.ToLower(request), []byte("\r\nhello\r\n")) })
					s := open(t, clients(t, proxy.Addr(), -1)[name], direct.NameOf(""))
					var faults []faultproxy.Fault
					for at := 1; at < 100; at++ {
						faults = append(faults, faultproxy.Fault{At: at, Kind: kind})
					}
					proxy.Plan(faults...)
					ctx, cancel := context.WithTimeout(t.Context(), shortTimeout)
					defer cancel()
					a, b := textOf(what, "a"), textOf(what, "b")
					requireNotApplied(t, write(ctx, s, a, b))

					waitFor(t, func() bool { proxy.Release(); return proxy.Hits() > 0 })
					if kind == faultproxy.StallRequest { // it stalls for ever
						proxy.Disconnect()
					}
					proxy.Plan()
					waitFor(t, func() bool { return write(t.Context(), s, textOf(what, "c"), textOf(what, "d")) == nil })
					require.Empty(t, stored(t, s, a)+stored(t, s, b), "it must not be sent later")
				})
			}
		}
	}
}

// hook is a hook of single commands. It is called after a command, and returns the error of the command.
type hook func(goredis.Cmder, error) error

func (hook) DialHook(next goredis.DialHook) goredis.DialHook { return next }
func (h hook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error { return h(cmd, next(ctx, cmd)) }
}
func (hook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// noPipelines is the error of a hook that sends no pipelines.
type noPipelines struct {
	hook
	error
}

func (h noPipelines) ProcessPipelineHook(goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(context.Context, []goredis.Cmder) error { return h.error }
}

func TestErrorOfAHookIsKept(t *testing.T) {
	s, client := sharedStore(t), newClient(t, shared.Redis(t).Addr())
	refused := noPipelines{func(_ goredis.Cmder, err error) error { return err }, errors.New("refused")}
	client.AddHook(refused)
	a, b := oneRequest("a"), oneRequest("b")
	run(t, open(t, client, s.NameOf("")), a, b)
	for _, err := range []error{a.Err, b.Err} {
		requireNotApplied(t, err)
		require.ErrorIs(t, err, refused.error)
	}
}

// After a timeout, the proxy answers with an error of its own, although the server has run the script. The
// error of a script itself is certain.
func TestErrorOfAProxyLeavesTheOutcomeUnknown(t *testing.T) {
	direct := sharedStore(t)
	fails := false
	client := newClient(t, shared.Redis(t).Addr())
	client.AddHook(hook(func(cmd goredis.Cmder, err error) error {
		if err == nil && fails {
			err = reply("ERR Connection timed out")
			cmd.SetErr(err)
		}
		return err
	}))
	s, err := redis.New(client, redis.Options{Prefix: direct.NameOf(""), Proxy: true})
	require.NoError(t, err)
	runOK(t, s, oneRequest("a"))
	fails = true
	_, _, err = s.CompareAndSwap(t.Context(), creating("b", "x"))
	requireUnknown(t, err)
	requireUnknown(t, runErr(t.Context(), s, oneRequest("a")))
	require.Equal(t, "x", stored(t, direct, "b"))
	require.Equal(t, 2, usedOf(t, direct, "a"))

	s, err = redis.New(newClientOf(t, shared.Redis(t), "no-get", allBut("get")...), redis.Options{Prefix: t.Name(), Proxy: true})
	require.NoError(t, err)
	for n := range 2 {
		_, _, err = s.CompareAndSwap(t.Context(), creatingN(n+1, "a")...)
		requireRefused(t, err)
	}
}

// calls are the calls that notice cancellation. Run is not one of them.
var calls = map[string]func(context.Context, *redis.Store) error{
	"swap": func(ctx context.Context, s *redis.Store) error {
		_, _, err := s.CompareAndSwap(ctx, creating("a", "late"))
		return err
	},
	"load": func(ctx context.Context, s *redis.Store) error { _, _, err := s.Load(ctx, "a"); return err },
}

func TestCallsEndAtTheirDeadline(t *testing.T) {
	server := servers.Redis(t)
	single := func(o goredis.Options) goredis.UniversalClient {
		o.Addr = server.Addr()
		return goredis.NewClient(&o)
	}
	for name, client := range map[string]goredis.UniversalClient{
		"defaults":                     single(goredis.Options{}),
		"no deadlines":                 single(goredis.Options{ReadTimeout: -2, WriteTimeout: -2}),
		"short timeouts, many retries": single(goredis.Options{ReadTimeout: 90 * time.Millisecond, WriteTimeout: 90 * time.Millisecond, MaxRetries: 1000}),
		"ContextTimeoutEnabled":        single(goredis.Options{ReadTimeout: time.Minute, ContextTimeoutEnabled: true}),
		"cluster":                      goredis.NewClusterClient(&goredis.ClusterOptions{ClusterSlots: oneNode(server.Addr())}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { client.Close() })
			s := open(t, client, t.Name())
			runOK(t, s, oneRequest("warm"))
			server.Pause()
			defer server.Resume()
			var running sync.WaitGroup
			ends := func(call string, do func(context.Context, *redis.Store) error) {
				running.Go(func() {
					const timeout = 200 * time.Millisecond
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					begun := time.Now()
					err := do(ctx, s)
					assert.Less(t, time.Since(begun), timeout+slack, call)
					assert.ErrorIs(t, err, storage.ErrUnavailable, call)
				})
			}
			for call, do := range calls {
				ends(call, do)
			}
			ends("run", func(ctx context.Context, s *redis.Store) error {
				b, other := oneRequest("a"), oneRequest("b")
				s.Run(ctx, b, other)
				assert.Error(t, other.Err)
				return b.Err
			})
			running.Wait()
		})
	}
}

// The server may apply a write after the call was cancelled. The store stays usable.
func TestCallsEndWhenTheyAreCancelled(t *testing.T) {
	for name, ownDeadline := range map[string]bool{"defaults": false, "ContextTimeoutEnabled": true} {
		t.Run(name, func(t *testing.T) {
			proxy := faultproxy.Redis(t, shared.Redis(t).Addr())
			s := open(t, newClientWith(t, goredis.Options{Addr: proxy.Addr(), ReadTimeout: time.Minute, ContextTimeoutEnabled: ownDeadline}), t.Name())
			for call, do := range calls {
				swap(t, s, creating("warm "+call, "x"))
				proxy.Plan(faultproxy.Fault{At: 1, Kind: faultproxy.LateRequest})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				failed := make(chan error, 1)
				go func() { failed <- do(ctx, s) }()
				waitFor(t, func() bool { return proxy.Exchanges() > 0 })
				cancel()
				cancelled := time.Now()
				err := <-failed
				require.Less(t, time.Since(cancelled), slack, call)
				require.ErrorIs(t, err, context.Canceled)
				requireUnknown(t, err)
				waitFor(t, func() bool { proxy.Release(); return proxy.Hits() == 1 })
			}
			proxy.Plan()
			require.Equal(t, "late", stored(t, s, "a"))
			swap(t, s, creating("z", "x"))
		})
	}
}
