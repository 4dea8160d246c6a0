package redis_test

import (
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

// A swap and a batch are a second command if the server does not know the script. The batches of one Run share a
// pipeline.
func TestSwapAndBatchAreOneCommandEach(t *testing.T) {
	server := servers.Redis(t)
	proxy := faultproxy.Redis(t, server.Addr())
	client := newClient(t, proxy.Addr())
	require.NoError(t, client.Ping(t.Context()).Err())
	s := open(t, client, "")
	two := []storage.Swap{creating("a", "x"), creating("b", "x")}
	for _, c := range []struct {
		name     string
		swaps    []storage.Swap
		commands int
		swapped  bool
	}{
		{"first", []storage.Swap{creating("first", "x")}, 2, true},
		{"one key", []storage.Swap{creating("one", "x")}, 1, true},
		{"conflict with one key", []storage.Swap{creating("one", "x")}, 1, false},
		{"two new keys", two, 1, true},
		{"two keys", updating(two...), 1, true},
		{"conflict with two keys", updating(two...), 1, false},
	} {
		proxy.Plan()
		_, swapped, err := s.CompareAndSwap(t.Context(), c.swaps...)
		require.NoError(t, err, c.name)
		require.Equal(t, c.swapped, swapped, c.name)
		require.Equal(t, c.commands, proxy.Exchanges(), c.name)
	}
	for i, batches := range [][]*driver.Batch{
		{oneRequest("c")},
		{oneRequest("c")},
		{oneRequest("c", "d")},
		{requestEach("e", "f", "g")},
		{oneRequest("c"), requestEach("e", "f"), oneRequest("h")},
	} {
		proxy.Plan()
		runOK(t, s, batches...)
		require.Equal(t, []int{2, 1, 1, 1, 3}[i], proxy.Exchanges())
	}
}

// A program that fails, or has the name of another one in the batch, changes nothing.
func TestWrongProgramsAreRefused(t *testing.T) {
	s := sharedStore(t)
	runOK(t, s, oneRequest("known"))
	other := *programOf(policy)
	other.Lua += " "
	bad := algo.Program{Name: "bad", Lua: "error('it fails')"}
	for text, wrong := range map[string]*algo.Program{`the name "gcra"`: &other, "it fails": &bad} {
		one, second := oneRequest("a"), requestEach("a", "b")
		one.Requests[0].Uses[0].Program, second.Requests[1].Uses[0].Program = wrong, wrong
		for _, b := range []*driver.Batch{one, second} {
			if b == one && wrong == &other { // its name is that of a program of another batch
				continue
			}
			run(t, s, b)
			requireRefused(t, b.Err)
			require.ErrorContains(t, b.Err, text)
			require.Empty(t, stored(t, s, "a"))
		}
	}
}

// The package comment lists these commands.
func TestUserNeedsOnlyTheDocumentedCommands(t *testing.T) {
	server := servers.Redis(t)
	s := open(t, newClientOf(t, server, "limiter", "~sluice:*", "+get", "+mget", "+set", "+psetex", "+pttl", "+del", "+time", "+eval", "+evalsha"), "")
	for range 3 {
		runOK(t, s, oneRequest("a"), requestEach("b", "c"))
	}
	full := requestEach("a", "b")
	refund(&full.Requests[0])
	far := oneRequest("far")
	far.Now = time.Date(2110, 1, 1, 0, 0, 0, 0, time.UTC)
	far.Margin = 100 * 365 * 24 * time.Hour // more than a TTL can be
	runOK(t, s, full, far)
	require.Equal(t, "-1", do(t, server, "PTTL", s.NameOf("far")))
	swap(t, s, creating("x", "state"), creating("y", "state"))
	_, _, err := s.Load(t.Context(), "x", "y")
	require.NoError(t, err)

	_, _, err = s.List(t.Context(), "", "", 1)
	require.ErrorContains(t, err, "NOPERM")
	do(t, server, "ACL", "SETUSER", "limiter", "+scan")
	_, _, err = s.List(t.Context(), "", "", 1)
	require.NoError(t, err)

	do(t, server, "ACL", "SETUSER", "limiter", "+select", "+client|setname")
	named := newClientWith(t, goredis.Options{Addr: server.Addr(), Username: "limiter", Password: "x", DB: 1, ClientName: "me"})
	runOK(t, open(t, named, ""), oneRequest("a"))
}

// placeOf returns the slots of keys, each alone.
func placeOf(t *testing.T, s *redis.Store, keys ...string) (slots []string) {
	for _, key := range keys {
		shard, slot, err := s.Place(key)
		require.NoError(t, err)
		require.Empty(t, shard)
		slots = append(slots, slot)
	}
	return slots
}

// If the user has no permission for one key of a batch, requests with different keys use different
// scripts for a minute.
func TestForbiddenKeysAreSeparated(t *testing.T) {
	server := servers.Redis(t)
	names := open(t, newClient(t, server.Addr()), "")
	s := open(t, newClientOf(t, server, "owner", "~"+names.NameOf("mine"), "~"+names.NameOf("ours"), "+@all", "&*"), "")
	require.Equal(t, []string{"", ""}, placeOf(t, s, "mine", "theirs"))
	b := requestEach("mine", "theirs")
	for range 2 {
		run(t, s, b)
		require.ErrorIs(t, b.Err, storage.ErrContended)
		require.ErrorIs(t, b.Err, storage.ErrNotApplied)
		slots := placeOf(t, s, "mine", "theirs", "minetheirs")
		_, both, _ := s.Place("mine", "theirs")
		require.Len(t, map[string]bool{slots[0]: true, slots[1]: true, slots[2]: true, both: true}, 4)

		runOK(t, s, oneRequest("mine"), oneRequest("mine", "ours"))
		for _, refused := range []*driver.Batch{oneRequest("theirs"), oneRequest("mine", "theirs")} {
			run(t, s, refused)
			require.ErrorContains(t, refused.Err, "NOPERM")
			requireRefused(t, refused.Err)
		}
		s.Advance(50 * time.Second)
		require.NotEqual(t, []string{""}, placeOf(t, s, "mine"))
		s.Advance(10 * time.Second)
		require.Equal(t, []string{""}, placeOf(t, s, "mine"), "the permission may have changed")
	}
}

func TestRequestsBehindAProxyShareNoScript(t *testing.T) {
	proxy, err := redis.New(newClient(t, shared.Redis(t).Addr()), redis.Options{Proxy: true})
	require.NoError(t, err)
	slots := placeOf(t, proxy, "a", "b", "a")
	require.NotEqual(t, slots[0], slots[1])
	require.Equal(t, slots[0], slots[2])
}

// Hooks that log or trace commands format their arguments.
func TestHooksSeeKeys(t *testing.T) {
	var shown string
	client := newClient(t, shared.Redis(t).Addr())
	client.AddHook(hook(func(cmd goredis.Cmder, err error) error {
		shown = fmt.Sprint(cmd.Args()...)
		return err
	}))
	s := open(t, client, t.Name())
	sw := creating(textOf("", "ann"), "x")
	sw.New.Version = 1<<64 - 1
	swap(t, s, sw)
	require.Contains(t, shown, `:test:test:ann`, "the key must be readable")
	runOK(t, s, oneRequest(textOf("", "bob")))
	require.Contains(t, shown, `:test:test:bob`, "hooks see batches, too")
}

func TestCursorOfAnotherListingIsAnError(t *testing.T) {
	s := open(t, newClient(t, shared.Redis(t).Addr()), "cursor:")
	for cursor, problem := range map[string]string{
		"x":             `invalid cursor "x"`,
		"x ":            `invalid cursor "x "`,
		"0 127.0.0.1:1": "the server 127.0.0.1:1 has left",
	} {
		_, _, err := s.List(t.Context(), "", cursor, 1)
		require.ErrorContains(t, err, problem)
	}
}

// The batch's time is exact to the microsecond, and so are large costs and outcomes.
func TestLargeNumbersAreExact(t *testing.T) {
	s, policy := sharedStore(t), sluice.MustPolicy(fmt.Sprintf("gcra %d/s", algo.MaxCount))
	now := time.Unix(4_102_444_800, 987_654_321)
	b := requestEach("one", "two")
	b.Now, b.Requests[0].Uses[0].Cost, b.Requests[1].Times = now, algo.MaxCount-1, 1_000_000_000
	for _, r := range b.Requests {
		r.Uses[0].Program = programOf(policy)
	}
	runOK(t, s, b)
	next, _, err := policy.Step(nil, nil, now, algo.MaxCount-1)
	require.NoError(t, err)
	require.Equal(t, string(next), stored(t, s, "one"))
	require.Equal(t, 1_000_000_000, b.Requests[1].Applied)
}

// A stack needs more code than a batch of its parts.
func TestStackRunsAfterABatchOfItsParts(t *testing.T) {
	s := sharedStore(t)
	stack := oneRequest(textOf(t.Name(), "stack"))
	stack.Requests[0].Uses[0].Program = programOf(sluice.MustPolicy("all(gcra 1000/10000h; gcra 2000/10000h)"))
	part := textOf(t.Name(), "part")
	runOK(t, s, oneRequest(part))
	runOK(t, s, oneRequest(part), stack) // only the script of the stack is sent again
	require.Equal(t, 1, stack.Requests[0].Applied)
	require.Equal(t, 2, usedOf(t, s, part))
}
