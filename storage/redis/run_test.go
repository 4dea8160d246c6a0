package redis_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

// programOf returns a GCRA policy and its program.
func programOf(t testing.TB, limit algo.Limit) (algo.Policy, *algo.Program) {
	t.Helper()
	policy, err := gcra.New(gcra.Options{Limit: limit})
	require.NoError(t, err)
	p, ok := policy.Program()
	require.True(t, ok)
	return policy, &p
}

// oneRequest returns a batch with one request for a unit of each key.
func oneRequest(p *algo.Program, keys ...string) *driver.Batch {
	b := &driver.Batch{Version: storage.NewVersion(), Keys: keys, Programs: []*algo.Program{p}, Requests: []driver.Request{{Times: 1}}}
	for i := range keys {
		b.Requests[0].Uses = append(b.Requests[0].Uses, driver.Use{Key: i, Cost: 1})
	}
	return b
}

// requestEach returns a batch with one request for each key.
func requestEach(p *algo.Program, keys ...string) *driver.Batch {
	b := oneRequest(p, keys...)
	uses := b.Requests[0].Uses
	b.Requests = nil
	for i := range uses {
		b.Requests = append(b.Requests, driver.Request{Times: 1, Uses: uses[i : i+1]})
	}
	return b
}

// run runs batches with a long timeout.
func run(t *testing.T, s driver.Server, batches ...*driver.Batch) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	s.Run(ctx, batches...)
}

// runOK runs batches, which must succeed.
func runOK(t *testing.T, s driver.Server, batches ...*driver.Batch) {
	t.Helper()
	run(t, s, batches...)
	for _, b := range batches {
		require.NoError(t, b.Err)
		require.Nil(t, b.KeyErr)
	}
}

// usedOf returns how many units of a limit are used.
func usedOf(t *testing.T, s storage.Store, policy algo.Policy, key string) int64 {
	t.Helper()
	records, _, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	r, err := policy.Peek(records[0].State, time.Now(), 1)
	require.NoError(t, err)
	return policy.Limit().Count - r.Remaining
}

// A batch is a second command if the server does not know the script. The batches of one Run share a
// pipeline.
func TestBatchIsOneCommand(t *testing.T) {
	server := shared.Redis(t)
	proxy := faultproxy.Redis(t, server.Addr())
	client := newClient(t, proxy.Addr())
	require.NoError(t, client.Ping(t.Context()).Err())
	s := open(t, client, t.Name())
	_, p := programOf(t, algo.Per(100, time.Hour))
	do(t, server, "SCRIPT", "FLUSH")
	for _, c := range []struct {
		commands int
		batches  []*driver.Batch
	}{
		{2, []*driver.Batch{oneRequest(p, "a")}},
		{1, []*driver.Batch{oneRequest(p, "a")}},
		{1, []*driver.Batch{oneRequest(p, "a", "b")}},
		{1, []*driver.Batch{requestEach(p, "c", "d", "e")}},
		{3, []*driver.Batch{oneRequest(p, "a"), requestEach(p, "c", "d"), oneRequest(p, "f")}},
	} {
		proxy.Plan()
		runOK(t, s, c.batches...)
		require.Equal(t, c.commands, proxy.Exchanges())
	}
	proxy.Plan()
	run(t, s, &driver.Batch{Keys: []string{"a", "a"}})
	require.Zero(t, proxy.Exchanges())
}

// The callers flush the scripts while they run batches and swaps.
func TestFlushedScriptsAreSentAgain(t *testing.T) {
	server := shared.Redis(t)
	s := open(t, newClient(t, server.Addr()), t.Name())
	policy, p := programOf(t, algo.Per(1000, 1000*time.Hour))
	const callers, times = 4, 50
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := range times {
				if i%5 == 0 {
					_, _ = server.Do("SCRIPT", "FLUSH")
				}
				b, many := oneRequest(p, "a"), requestEach(p, "b", "c")
				s.Run(t.Context(), b, many)
				_, swapped, err := s.CompareAndSwap(t.Context(), creatingN(1+i%2, fmt.Sprint(caller, " ", i))...)
				if b.Err != nil || many.Err != nil || err != nil || !swapped {
					t.Error(b.Err, many.Err, err, swapped)
				}
			}
		})
	}
	group.Wait()
	for _, key := range []string{"a", "b", "c"} {
		require.EqualValues(t, callers*times, usedOf(t, s, policy, key))
	}
}

func TestTwoProgramsWithOneNameAreRefused(t *testing.T) {
	s := open(t, newClient(t, shared.Redis(t).Addr()), t.Name())
	_, p := programOf(t, algo.Per(1, time.Hour))
	other := *p
	other.Lua += " "
	for _, keys := range [][]string{{"a"}, {"b", "c"}} {
		runOK(t, s, oneRequest(p, keys...))
		b := oneRequest(&other, keys...)
		run(t, s, b)
		require.ErrorContains(t, b.Err, `the name "gcra"`)
		require.ErrorIs(t, b.Err, storage.ErrNotApplied)
	}
	both := requestEach(p, "a", "b")
	both.Programs = append(both.Programs, &other)
	run(t, s, both)
	require.ErrorIs(t, both.Err, storage.ErrNotApplied)
}

func TestFailingProgramChangesNothing(t *testing.T) {
	s := open(t, newClient(t, shared.Redis(t).Addr()), t.Name())
	_, p := programOf(t, algo.Per(1, time.Hour))
	bad := &algo.Program{Name: "bad", Lua: "return function() error('it fails') end"}
	for _, b := range []*driver.Batch{
		oneRequest(bad, "a"),
		{Version: storage.NewVersion(), Keys: []string{"a", "b"}, Programs: []*algo.Program{p, bad}, Requests: []driver.Request{
			{Uses: []driver.Use{{Key: 0, Cost: 1}}}, {Uses: []driver.Use{{Key: 1, Program: 1, Cost: 1}}},
		}},
	} {
		run(t, s, b)
		require.ErrorContains(t, b.Err, "it fails")
		require.ErrorIs(t, b.Err, storage.ErrNotApplied)
		require.NotErrorIs(t, b.Err, storage.ErrUnavailable)
		require.Empty(t, stored(t, s, "a"))
	}
}

// The batch's time is exact to the microsecond, and outcomes of any size are returned.
func TestNumbersOfAnySizeAreExact(t *testing.T) {
	s := open(t, newClient(t, shared.Redis(t).Addr()), t.Name())
	policy, p := programOf(t, algo.Per(algo.MaxCount, time.Second))
	b := oneRequest(p, "one")
	b.Requests[0].Uses[0].Cost = algo.MaxCount - 1
	b.Now = time.Unix(4_102_444_800, 987_654_321)
	runOK(t, s, b)
	next, _, err := policy.Step(nil, nil, b.Now, algo.MaxCount-1)
	require.NoError(t, err)
	require.Equal(t, string(next), stored(t, s, "one"))

	for i, times := range []int{0, 1, 250, 251, 252, 253, 255, 256, 65_536, 1_000_000_000} {
		for _, b := range []*driver.Batch{oneRequest(p, fmt.Sprint("a", i)), requestEach(p, fmt.Sprint("b", i), fmt.Sprint("c", i))} {
			b.Requests[0].Times = times
			runOK(t, s, b)
			require.Equal(t, max(times, 1), b.Requests[0].Applied)
		}
	}
}

// The package comment lists these commands.
func TestUserNeedsOnlyTheDocumentedCommands(t *testing.T) {
	server := servers.Redis(t)
	client := newClientOf(t, server, "limiter", "~sluice:*", "+get", "+mget", "+set", "+psetex", "+pttl", "+del", "+time", "+eval", "+evalsha")
	s := open(t, client, "")
	_, p := programOf(t, algo.Per(2, time.Hour))
	for range 3 {
		runOK(t, s, oneRequest(p, "a"), requestEach(p, "b", "c"))
	}
	refund := requestEach(p, "a", "b")
	for i := range refund.Requests {
		refund.Requests[i].Uses[0].Op, refund.Requests[i].Uses[0].Cost = driver.Refund, 2 // which deletes the records
	}
	runOK(t, s, refund)
	far := oneRequest(p, "far")
	far.Now = time.Date(2110, 1, 1, 0, 0, 0, 0, time.UTC)
	far.Margin = 100 * 365 * 24 * time.Hour // more than a TTL can be
	runOK(t, s, far)
	require.Equal(t, "-1", do(t, server, "PTTL", s.NameOf("far")))
	swap(t, s, creating("x", "state"), creating("y", "state"))
	_, _, err := s.Load(t.Context(), "x", "y")
	require.NoError(t, err)

	do(t, server, "ACL", "SETUSER", "limiter", "+select", "+client|setname")
	named := newClientWith(t, goredis.Options{Addr: server.Addr(), Username: "limiter", Password: "x", DB: 1, ClientName: "me"})
	runOK(t, open(t, named, ""), oneRequest(p, "a"))
}

func TestRefusedFirstWriteChangesNothing(t *testing.T) {
	server := servers.Redis(t)
	s := open(t, newClientOf(t, server, "no-psetex", allBut("psetex")...), "")
	_, p := programOf(t, algo.Per(2, time.Hour))
	for _, b := range []*driver.Batch{oneRequest(p, "a"), oneRequest(p, "b", "c")} {
		run(t, s, b)
		require.ErrorIs(t, b.Err, storage.ErrNotApplied)
		for _, key := range b.Keys {
			require.Empty(t, stored(t, s, key))
		}
	}
}

func TestRefusedLaterWriteFailsItsKey(t *testing.T) {
	server := servers.Redis(t)
	s := open(t, newClientOf(t, server, "no-del", allBut("del")...), "")
	policy, p := programOf(t, algo.Per(2, time.Hour))
	runOK(t, s, oneRequest(p, "b"))
	b := requestEach(p, "a", "b", "c")
	b.Requests[1].Uses[0].Op = driver.Refund // which deletes the record
	run(t, s, b)
	require.NoError(t, b.Err)
	require.NoError(t, b.KeyErr[0])
	require.ErrorIs(t, b.KeyErr[1], storage.ErrPartialWrite)
	require.NotErrorIs(t, b.KeyErr[1], storage.ErrNotApplied)
	require.NoError(t, b.KeyErr[2])
	for _, key := range b.Keys {
		require.EqualValues(t, 1, usedOf(t, s, policy, key))
	}
}

// If the user has no permission for one key of a batch, requests with different keys use different
// scripts for a minute.
func TestForbiddenKeysAreSeparated(t *testing.T) {
	server := servers.Redis(t)
	names := open(t, newClient(t, server.Addr()), "")
	client := newClientOf(t, server, "owner", "~"+names.NameOf("mine"), "~"+names.NameOf("ours"), "+@all", "&*")
	s := open(t, client, "")
	_, p := programOf(t, algo.Per(2, time.Hour))
	_, one, err := s.Place("mine")
	require.NoError(t, err)
	_, other, err := s.Place("theirs")
	require.NoError(t, err)
	require.Equal(t, one, other)

	b := requestEach(p, "mine", "theirs")
	run(t, s, b)
	require.ErrorIs(t, b.Err, storage.ErrContended)
	require.ErrorIs(t, b.Err, storage.ErrNotApplied)
	_, one, _ = s.Place("mine")
	_, other, _ = s.Place("theirs")
	_, both, _ := s.Place("mine", "theirs")
	_, swapped, _ := s.Place("minetheirs")
	require.Len(t, map[string]bool{one: true, other: true, both: true, swapped: true}, 4)

	runOK(t, s, oneRequest(p, "mine"))
	runOK(t, s, oneRequest(p, "mine", "ours"))
	for _, refused := range []*driver.Batch{oneRequest(p, "theirs"), oneRequest(p, "mine", "theirs")} {
		run(t, s, refused)
		require.ErrorContains(t, refused.Err, "NOPERM")
		require.ErrorIs(t, refused.Err, storage.ErrNotApplied)
		require.NotErrorIs(t, refused.Err, storage.ErrContended, "a retry does not help")
	}

	s.Advance(50 * time.Second)
	_, one, _ = s.Place("mine")
	require.NotEmpty(t, one)
	s.Advance(10 * time.Second)
	_, one, _ = s.Place("mine")
	require.Empty(t, one, "the permission may have changed")
	run(t, s, b)
	require.ErrorIs(t, b.Err, storage.ErrContended)
	_, one, _ = s.Place("mine")
	require.NotEmpty(t, one)
}

func TestPlaceOnOneServer(t *testing.T) {
	client := newClient(t, shared.Redis(t).Addr())
	s := open(t, client, "")
	for _, keys := range [][]string{nil, {"a"}, {"a", "b"}} {
		shard, slot, err := s.Place(keys...)
		require.NoError(t, err)
		require.Empty(t, shard)
		require.Empty(t, slot)
	}
	proxy, err := redis.New(client, redis.Options{Proxy: true})
	require.NoError(t, err)
	_, a, _ := proxy.Place("a")
	_, b, _ := proxy.Place("b")
	_, again, _ := proxy.Place("a")
	require.NotEqual(t, a, b)
	require.Equal(t, a, again)

	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"shard": shared.Redis(t).Addr()}})
	t.Cleanup(func() { ring.Close() })
	r := open(t, ring, t.Name())
	_, a, _ = r.Place(textOf("tenant", "a"))
	_, b, _ = r.Place(textOf("tenant", "b"))
	_, other, _ := r.Place(textOf("other", "b"))
	require.Equal(t, a, b)
	require.NotEqual(t, a, other)
	_, _, err = r.Place(textOf("tenant", "a"), textOf("other", "b"))
	require.ErrorIs(t, err, redis.ErrCrossSlot)
	_, p := programOf(t, algo.Per(2, time.Hour))
	runOK(t, r, requestEach(p, textOf("tenant", "a"), textOf("tenant", "b")), oneRequest(p, textOf("other", "b")))
}
