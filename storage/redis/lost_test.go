package redis_test

import (
	"bytes"
	"context"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/internal/engine/enginetest"
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

// eager are clients that retry as much as they like, and soon give up a reply.
var eager = map[string]func(addr string) goredis.UniversalClient{
	"alone": func(addr string) goredis.UniversalClient {
		return goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: 5, ReadTimeout: moment})
	},
	"cluster": func(addr string) goredis.UniversalClient {
		return goredis.NewClusterClient(&goredis.ClusterOptions{
			MaxRedirects: 5, MaxRetries: 5, ReadTimeout: moment, ClusterSlots: oneNode(addr),
		})
	},
	"ring": func(addr string) goredis.UniversalClient {
		return goredis.NewRing(&goredis.RingOptions{
			Addrs: map[string]string{"shard": addr}, MaxRetries: 5, ReadTimeout: moment,
		})
	},
}

// oneNode is a cluster of one node.
func oneNode(addr string) func(context.Context) ([]goredis.ClusterSlot, error) {
	return func(context.Context) ([]goredis.ClusterSlot, error) {
		return []goredis.ClusterSlot{{Start: 0, End: 16383, Nodes: []goredis.ClusterNode{{Addr: addr}}}}, nil
	}
}

// moment is enough for an answer, and not long to wait for one that never
// comes.
const moment = 500 * time.Millisecond

// faulty is a store behind a proxy that numbers its writes, and the same one past
// the proxy, on a client that has time. The server knows the scripts, and the
// store is connected.
func faulty(t *testing.T, connect func(addr string) goredis.UniversalClient, prefix string) (s, truth *redis.Store, proxy *faultproxy.Proxy) {
	t.Helper()
	server := shared.Redis(t)
	proxy = faultproxy.Redis(t, server.Addr())
	client := connect(proxy.Addr())
	t.Cleanup(func() { client.Close() })
	s, truth = open(t, client, prefix), open(t, newClient(t, server.Addr()), prefix)
	know(t, truth)
	waitFor(t, func() bool { _, err := s.Load(t.Context(), "a"); return err == nil })
	proxy.Only(isWrite)
	return s, truth, proxy
}

func isWrite(request []byte) bool { return bytes.Contains(request, []byte("\r\neval")) }

func TestTheClientNeverSendsAgain(t *testing.T) {
	for name, connect := range eager {
		for _, kind := range []faultproxy.Kind{faultproxy.DropReply, faultproxy.ResetReply, faultproxy.CutReply, faultproxy.StallReply} {
			t.Run(name+", "+kind.String(), func(t *testing.T) {
				s, truth, proxy := faulty(t, connect, t.Name())

				proxy.Plan(faultproxy.Fault{At: 1, Kind: kind})
				_, swapped, err := s.CompareAndSwap(t.Context(), creating("a", "alone"))
				require.False(t, swapped)
				lost(t, err)
				waitFor(t, func() bool { return len(proxy.Hits()) == 1 })
				require.Equal(t, 1, proxy.Seen())
				require.Equal(t, "alone", stored(t, truth, "a"))
			})
		}
	}
}

// A plain script is sent again, and so may be applied twice: that is why ours is
// not plain.
func TestTheClientSendsPlainScriptsAgain(t *testing.T) {
	proxy := faultproxy.Redis(t, shared.Redis(t).Addr())
	client := newClient(t, proxy.Addr())
	const count = "return redis.call('INCR', KEYS[1])"
	require.NoError(t, client.Eval(t.Context(), count, []string{t.Name()}).Err())
	proxy.Only(isWrite)
	proxy.Plan(faultproxy.Fault{At: 1, Kind: faultproxy.DropReply})
	n, err := client.Eval(t.Context(), count, []string{t.Name()}).Int()
	require.NoError(t, err)
	require.Equal(t, 3, n)
}

// lost requires an error that leaves open whether anything was applied.
func lost(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.NotErrorIs(t, err, storage.ErrNotApplied)
}

// Whatever happens to whichever message, a decision counts once.
func TestFaultsCostNothing(t *testing.T) {
	for name, connect := range eager {
		for _, kind := range faultproxy.Kinds() {
			t.Run(name+", "+kind.String(), func(t *testing.T) {
				t.Parallel()
				s, truth, proxy := faulty(t, connect, t.Name())
				e := engine.New(s, engine.Options{Timeout: long})
				const times = 3
				for at := 1; at <= times; at++ {
					key := strconv.Itoa(at)
					proxy.Plan(faultproxy.Fault{At: at, Kind: kind})
					for i := range times {
						_, err := enginetest.Do(t.Context(), e, []string{key}, increment)
						require.NoError(t, err)
						require.Equal(t, strconv.Itoa(i+1), stored(t, truth, key))
					}
					require.Eventually(t, func() bool { return len(proxy.Hits()) == 1 }, long, time.Millisecond)
					require.Equal(t, strconv.Itoa(times), stored(t, truth, key))
				}
			})
		}
	}
}

// increment adds one to the number under each key.
func increment(_ time.Time, found [][]byte, next []driver.Change) error {
	for i := range next {
		n, _ := strconv.Atoi(string(found[i])) // nothing is 0
		next[i] = driver.Change{Verb: driver.Put, State: []byte(strconv.Itoa(n + 1))}
	}
	return nil
}

func TestALimiterLosesNothingToFaults(t *testing.T) {
	s, _, proxy := faulty(t, eager["alone"], t.Name())
	policy, err := gcra.New(gcra.Options{Limit: algo.Per(5, time.Hour)})
	require.NoError(t, err)
	limiter, err := compose.Options[string]{Clock: still, Timeout: long}.New(s,
		compose.Rule[string]{Name: "user", Key: func(user string) string { return user }, Policy: policy},
		compose.Rule[string]{Name: "all", Policy: policy},
	)
	require.NoError(t, err)
	var faults []faultproxy.Fault
	for at := 1; at <= 9; at += 2 { // the first try of each decision that is allowed, not the second
		faults = append(faults, faultproxy.Fault{At: at, Kind: faultproxy.DropReply})
	}
	proxy.Plan(faults...)
	allowed := 0
	for range 10 {
		d, err := limiter.Allow(t.Context(), "ann")
		require.NoError(t, err)
		if d.Allowed {
			allowed++
		}
	}
	require.Equal(t, 5, allowed)
	require.Len(t, proxy.Hits(), len(faults))
}
