package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
)

// allBut returns ACL rules that permit all commands except one or more.
func allBut(commands ...string) []string {
	rules := []string{"~*", "&*", "+@all"}
	for _, command := range commands {
		rules = append(rules, "-"+command)
	}
	return rules
}

// A swap is a second command if the server does not know the script.
func TestSwapIsOneCommand(t *testing.T) {
	server := shared.Redis(t)
	proxy := faultproxy.Redis(t, server.Addr())
	client := newClient(t, proxy.Addr())
	require.NoError(t, client.Ping(t.Context()).Err())
	s := open(t, client, t.Name())
	do(t, server, "SCRIPT", "FLUSH")
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
		{"two keys", updating(two), 1, true},
		{"conflict with two keys", updating(two), 1, false},
	} {
		proxy.Plan()
		_, swapped, err := s.CompareAndSwap(t.Context(), c.swaps...)
		require.NoError(t, err, c.name)
		require.Equal(t, c.swapped, swapped, c.name)
		require.Equal(t, c.commands, proxy.Exchanges(), c.name)
	}
}

func TestRefusedLaterWriteIsTorn(t *testing.T) {
	server := shared.Redis(t)
	direct := open(t, newClient(t, server.Addr()), t.Name())
	s := open(t, newClientOf(t, server, "no-del", allBut("del")...), t.Name())
	for _, order := range []string{"put first", "delete first"} {
		put, del := creating(order+" a", "x"), creating(order+" b", "x")
		swap(t, direct, put, del)
		swaps := []storage.Swap{updating([]storage.Swap{put})[0], {Key: del.Key, Old: del.New.Version}}
		if order == "delete first" {
			swaps[0], swaps[1] = swaps[1], swaps[0]
		}
		_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
		require.False(t, swapped)
		partial := order == "put first"
		require.Equal(t, partial, errors.Is(err, storage.ErrPartialWrite), "%v", err)
		require.Equal(t, !partial, errors.Is(err, storage.ErrNotApplied), "%v", err)
		require.Equal(t, map[bool]string{true: "updated", false: "x"}[partial], stored(t, direct, put.Key))
		require.Equal(t, "x", stored(t, direct, del.Key))
	}
}

func TestForeignValuesAreErrors(t *testing.T) {
	server := shared.Redis(t)
	for _, keys := range []int{1, 2} {
		name := strconv.Itoa(keys)
		s := open(t, newClient(t, server.Addr()), t.Name()+name)
		do(t, server, "LPUSH", s.NameOf("list"), "x")
		do(t, server, "HSET", s.NameOf("hash"), "x", "y")
		do(t, server, "SET", s.NameOf("short"), "x")
		do(t, server, "SET", s.NameOf("empty"), "")
		do(t, server, "SET", s.NameOf("version 0"), strings.Repeat("\x00", 8)+"state")
		for _, key := range []string{"list", "short", "empty", "hash", "version 0"} {
			_, _, err := s.Load(t.Context(), key)
			require.Error(t, err)
			_, swapped, err := s.CompareAndSwap(t.Context(), creatingN(keys, key)...)
			require.False(t, swapped)
			require.ErrorIs(t, err, storage.ErrNotApplied)
			require.NotErrorIs(t, err, storage.ErrUnavailable)
			if key == "list" || key == "hash" {
				require.ErrorContains(t, err, "redis: WRONGTYPE")
			} else {
				require.ErrorContains(t, err, "not a record")
			}
			require.Empty(t, stored(t, s, key+" 2"), "all or nothing")
		}
		require.Equal(t, "1", do(t, server, "LLEN", s.NameOf("list")))
		require.Equal(t, "1", do(t, server, "HLEN", s.NameOf("hash")))
	}
}

func TestRefusedSwapWritesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		refused []string // commands
		ttl     time.Duration
		until   time.Time
	}{
		"without a TTL": {refused: []string{"set", "psetex"}},
		"with a TTL":    {refused: []string{"set", "psetex"}, ttl: time.Hour},
		"with an Until": {refused: []string{"time"}, ttl: time.Hour, until: time.Now()},
	} {
		client := newClientOf(t, shared.Redis(t), "no-"+strings.Join(c.refused, "-"), allBut(c.refused...)...)
		for keys := 1; keys <= 2; keys++ {
			s := open(t, client, fmt.Sprint(t.Name(), name, keys))
			swaps := creatingN(keys, "a")
			for i := range swaps {
				swaps[i].TTL, swaps[i].Until = c.ttl, c.until
			}
			_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
			require.False(t, swapped)
			require.ErrorIs(t, err, storage.ErrNotApplied)
			require.NotErrorIs(t, err, storage.ErrUnavailable)
			require.ErrorContains(t, err, "The user")
			require.Empty(t, stored(t, open(t, newClient(t, shared.Redis(t).Addr()), fmt.Sprint(t.Name(), name, keys)), "a"))
		}
	}
}

// A Ring does not redirect commands, so it must choose the shard by the key.
func TestRingChoosesTheShardByTheKey(t *testing.T) {
	addrs := map[string]string{}
	for _, shard := range []string{"a", "b", "c"} {
		addrs[shard] = servers.Redis(t).Addr()
	}
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: addrs})
	t.Cleanup(func() { ring.Close() })
	s := open(t, ring, t.Name())
	var groups [][]storage.Swap
	for i := range 30 {
		tenant := fmt.Sprint(i, "\xff{")
		groups = append(groups, []storage.Swap{creating(tenant, "x")},
			[]storage.Swap{creating(textOf(tenant, "a"), "x"), creating(textOf(tenant, "b"), "x")})
	}
	swap(t, s, creating("alone", "x"))
	for _, group := range groups {
		swap(t, s, group...)
	}
	for _, group := range append(groups, []storage.Swap{{Key: "alone"}}) {
		for _, sw := range group {
			require.Equal(t, "x", stored(t, s, sw.Key))
		}
	}
}

// hook is a hook of single commands.
type hook func(goredis.Cmder, error) error

func (hook) DialHook(next goredis.DialHook) goredis.DialHook { return next }
func (h hook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error { return h(cmd, next(ctx, cmd)) }
}
func (hook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// Tracing hooks format arguments with fmt, and OTLP accepts only valid UTF-8.
func TestCommandsFormatAsText(t *testing.T) {
	var shown string
	client := newClient(t, shared.Redis(t).Addr())
	client.AddHook(hook(func(cmd goredis.Cmder, err error) error {
		shown = fmt.Sprint(cmd.Args()...)
		for _, arg := range cmd.Args() {
			if _, ok := arg.(string); !ok {
				require.True(t, utf8.ValidString(fmt.Sprint(arg)), "%q", arg)
			}
		}
		return err
	}))
	s := open(t, client, t.Name())
	sw := creating(textOf("", "ann"), "x")
	sw.New.Version = 1<<64 - 1
	swap(t, s, sw)
	require.Contains(t, shown, `:test:test:ann`, "the key must be readable")

	shown = ""
	_, p := programOf(t, algo.Per(2, time.Hour))
	runOK(t, s, oneRequest(p, textOf("", "bob")))
	require.Contains(t, shown, `:test:test:bob`, "hooks see batches, too")
}
