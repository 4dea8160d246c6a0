package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

const (
	together = 64 / 2       // pairs that share a command
	many     = 3 * together // pairs of a batch
)

// pairs are groups of two keys each, that create them.
func pairs() [][]storage.Swap {
	var groups [][]storage.Swap
	for i := range many {
		groups = append(groups, []storage.Swap{creating(fmt.Sprint(i, "a"), "x"), creating(fmt.Sprint(i, "b"), "x")})
	}
	return groups
}

// honest requires of every outcome of a batch that it tells no lie about what
// is stored, and that no group is torn. It answers how many are stored.
func honest(t *testing.T, truth *redis.Store, groups [][]storage.Swap, outcomes []storage.Outcome) (applied int) {
	t.Helper()
	for i, group := range groups {
		records, err := truth.Load(t.Context(), group[0].Key, group[1].Key)
		require.NoError(t, err)
		there := records[0].Version == group[0].New.Version
		require.Equal(t, there, records[1].Version == group[1].New.Version, "torn: %d", i)
		if there {
			applied++
		}
		if o := outcomes[i]; o.Err == nil {
			require.Equal(t, there, o.Swapped, "group %d", i)
		} else {
			require.ErrorIs(t, o.Err, storage.ErrUnavailable)
			require.False(t, there && errors.Is(o.Err, storage.ErrNotApplied), "group %d", i)
		}
	}
	return applied
}

// behind is a store on one connection behind a proxy that numbers its writes,
// and the same one past the proxy.
func behind(t *testing.T, server *servers.RedisServer) (s, truth *redis.Store, proxy *faultproxy.Proxy) {
	t.Helper()
	proxy = faultproxy.Redis(t, server.Addr())
	client := goredis.NewClient(&goredis.Options{Addr: proxy.Addr(), PoolSize: 1, ContextTimeoutEnabled: true, ReadTimeout: long})
	t.Cleanup(func() { client.Close() })
	s, truth = open(t, client, t.Name()), open(t, newClient(t, server.Addr()), t.Name())
	know(t, s)
	proxy.Only(isWrite)
	return s, truth, proxy
}

// meet has a batch meet a fault, and answers how many groups were applied, and
// of how many the outcome was told.
func meet(t *testing.T, s, truth *redis.Store, proxy *faultproxy.Proxy, fault faultproxy.Fault) (applied, told int) {
	t.Helper()
	proxy.Plan(fault)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if fault.Kind.Hangs() {
		go func() {
			waitFor(t, func() bool { return proxy.Seen() >= fault.At })
			cancel()
		}()
	}
	groups := pairs()
	outcomes := s.CompareAndSwapBatch(ctx, groups...)
	waitFor(t, func() bool { proxy.Release(); return len(proxy.Hits()) == 1 })
	for _, o := range outcomes {
		if o.Err == nil {
			told++
		}
	}
	if fault.Kind == faultproxy.StallReply || fault.Kind == faultproxy.LateRequest {
		// What the client had sent may still be on its way.
		create(t, s, creating("marker", "x"))
	}
	return honest(t, truth, groups, outcomes), told
}

func TestABatchMeetsAFault(t *testing.T) {
	server := shared.Redis(t)
	for _, kind := range faultproxy.Kinds() {
		for _, at := range []int{1, 2, 3} {
			t.Run(fmt.Sprint(kind, " at ", at), func(t *testing.T) {
				s, truth, proxy := behind(t, server)
				applied, told := meet(t, s, truth, proxy, faultproxy.Fault{At: at, Kind: kind})
				before := (at - 1) * together
				require.LessOrEqual(t, told, before)
				// Elsewhere the system may throw away replies that have arrived.
				if at == 3 && (kind == faultproxy.DropReply || kind == faultproxy.CutReply) {
					require.Equal(t, before, told, "the groups before the fault have their answer")
				}
				if !kind.Applied() {
					require.Equal(t, before, applied)
				}
			})
		}
	}
}

// The server knows no script: the batch is sent twice, and the fault hits the
// second pipeline.
func TestABatchInFullMeetsAFault(t *testing.T) {
	server := servers.Redis(t)
	for _, kind := range []faultproxy.Kind{faultproxy.DropRequest, faultproxy.DropReply, faultproxy.CutReply} {
		t.Run(kind.String(), func(t *testing.T) {
			s, truth, proxy := behind(t, server)
			do(t, server, "SCRIPT", "FLUSH")
			applied, told := meet(t, s, truth, proxy, faultproxy.Fault{At: 3 + 2, Kind: kind})
			require.LessOrEqual(t, told, together)
			require.GreaterOrEqual(t, applied, together)
		})
	}
}

// One group loses, and the others do not notice.
func TestABatchWithLosers(t *testing.T) {
	s := open(t, newClient(t, shared.Redis(t).Addr()), t.Name())
	there := creating("7a", "x")
	create(t, s, there)
	groups := pairs()
	groups[3] = []storage.Swap{creating(string(make([]byte, storage.MaxKey+1)), "x")}
	for i, o := range s.CompareAndSwapBatch(t.Context(), groups...) {
		switch i {
		case 3:
			require.ErrorIs(t, o.Err, storage.ErrKey)
		case 7:
			require.NoError(t, o.Err)
			require.Equal(t, []storage.Record{there.New, {}}, o.Current)
		default:
			require.Equal(t, storage.Outcome{Swapped: true}, o)
		}
	}
}

// The groups of a script fail apart, as far as it is the group's fault.
func TestABatchWithStrangers(t *testing.T) {
	server := shared.Redis(t)
	s := open(t, newClient(t, server.Addr()), t.Name())
	do(t, server, "LPUSH", s.NameOf("list"), "x")
	do(t, server, "SET", s.NameOf("short"), "x")
	do(t, server, "SET", s.NameOf("empty"), "")
	var groups [][]storage.Swap
	for _, key := range []string{"a", "list", "b", "short", "c", "empty", "d"} {
		groups = append(groups, []storage.Swap{creating(key+"'s other", "x"), creating(key, "x")})
	}
	for i, o := range s.CompareAndSwapBatch(t.Context(), groups...) {
		if i%2 == 0 {
			require.Equal(t, storage.Outcome{Swapped: true}, o)
			continue
		}
		require.ErrorIs(t, o.Err, storage.ErrNotApplied)
		require.NotErrorIs(t, o.Err, storage.ErrUnavailable)
		require.Empty(t, stored(t, s, groups[i][0].Key), "all or nothing")
	}
	require.Equal(t, "1", do(t, server, "LLEN", s.NameOf("list")))
}

// What the server refuses to write, no group of a script has written.
func TestABatchOnAFullServer(t *testing.T) {
	server := servers.Redis(t)
	s := open(t, newClient(t, server.Addr()), t.Name())
	create(t, s, creating("there", "x"))
	do(t, server, "CONFIG", "SET", "maxmemory", "1")
	groups := append([][]storage.Swap{{creating("there", "x")}}, pairs()...)
	for _, o := range s.CompareAndSwapBatch(t.Context(), groups...) {
		refuses(t, o.Err)
	}
	require.Equal(t, "1", do(t, server, "DBSIZE"))
}

// The user may not delete. Whatever the server refuses, an outcome is no lie.
func TestABatchThatIsNotAllAllowed(t *testing.T) {
	server := shared.Redis(t)
	truth := open(t, newClient(t, server.Addr()), t.Name())
	s := open(t, limited(t, server, "del"), t.Name())
	for _, order := range []string{"put first", "delete first"} {
		there, other, last := creating(order+" a", "x"), creating(order+" b", "x"), creating(order+" c", "x")
		create(t, truth, there, other, last)
		removal := storage.Swap{Key: there.Key, Old: there.New.Version}
		put := creating(order+" new", "x")
		torn := []storage.Swap{after([]storage.Swap{other})[0], {Key: last.Key, Old: last.New.Version}}
		groups := [][]storage.Swap{{put}, {removal}, torn}
		if order == "delete first" {
			groups[0], groups[1] = groups[1], groups[0]
		}
		for i, o := range s.CompareAndSwapBatch(t.Context(), groups...) {
			if o.Swapped {
				require.Equal(t, put, groups[i][0], "deletions are refused")
			}
			written := stored(t, truth, groups[i][0].Key) == string(groups[i][0].New.State)
			if errors.Is(o.Err, storage.ErrNotApplied) {
				require.False(t, written, "%s: %d", order, i)
			} else if o.Err != nil {
				require.ErrorIs(t, o.Err, storage.ErrTorn)
			}
		}
		require.Equal(t, "x", stored(t, truth, there.Key))
	}
}

// Of some keys the user has no right to know.
func TestABatchWithKeysOfOthers(t *testing.T) {
	server := shared.Redis(t)
	name := open(t, newClient(t, server.Addr()), t.Name()).NameOf("a")
	do(t, server, "ACL", "SETUSER", "owner", "on", ">x", "~"+name, "&*", "+@all")
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr(), Username: "owner", Password: "x"})
	t.Cleanup(func() { client.Close() })
	outcomes := open(t, client, t.Name()).CompareAndSwapBatch(t.Context(), []storage.Swap{creating("a", "x")}, []storage.Swap{creating("b", "x")})
	require.Equal(t, storage.Outcome{Swapped: true}, outcomes[0])
	require.ErrorIs(t, outcomes[1].Err, storage.ErrNotApplied)
}

func TestClientsOfOtherTypesSpread(t *testing.T) {
	type wrapped struct{ *goredis.Client }
	proxy := faultproxy.Redis(t, shared.Redis(t).Addr())
	client := newClient(t, proxy.Addr())
	spread, err := redis.New(client, redis.Options{Prefix: t.Name(), Spread: true})
	require.NoError(t, err)
	for i, s := range []*redis.Store{spread, open(t, wrapped{client}, t.Name())} {
		know(t, spread)
		proxy.Only(isWrite)
		proxy.Plan()
		s.CompareAndSwapBatch(t.Context(), []storage.Swap{creating(fmt.Sprint(i, "a"), "x")}, []storage.Swap{creating(fmt.Sprint(i, "b"), "x")})
		require.Equal(t, 2, proxy.Seen())
		do(t, shared.Redis(t), "DEL", spread.NameOf("warm"), spread.NameOf(storage.Key("warm", "a")), spread.NameOf(storage.Key("warm", "b")))
	}
}

func TestAGroupOfVeryManyKeys(t *testing.T) {
	s := open(t, newClient(t, shared.Redis(t).Addr()), t.Name())
	var group []storage.Swap
	for i := range 10_000 {
		group = append(group, creating(fmt.Sprint(i), "x"))
	}
	create(t, s, group...)
	create(t, s, after(group)...)
}

// A server may be the face of several, and so refuse scripts with keys of more than
// one.
func TestABatchOnServersBehindOne(t *testing.T) {
	server := servers.Redis(t, "cluster-enabled yes")
	do(t, server, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	waitFor(t, func() bool { return strings.Contains(do(t, server, "CLUSTER", "INFO"), "cluster_state:ok") })
	proxy := faultproxy.Redis(t, server.Addr())
	proxy.Only(isWrite)
	s := open(t, newClient(t, proxy.Addr()), t.Name())
	for _, commands := range []int{1 + 3, 3} { // once refused, never tried again
		var groups [][]storage.Swap
		for i := range 3 {
			groups = append(groups, []storage.Swap{creating(fmt.Sprint(commands, i), "x")})
		}
		proxy.Plan()
		for _, o := range s.CompareAndSwapBatch(t.Context(), groups...) {
			require.Equal(t, storage.Outcome{Swapped: true}, o)
		}
		require.Equal(t, commands, proxy.Seen())
	}
}
