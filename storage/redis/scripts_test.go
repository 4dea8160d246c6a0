package redis_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

// scripts are the scripts that swap, by how many keys they are for here.
var scripts = map[string]int{"single": 1, "several": 2}

// group creates a key, and maybe another.
func group(keys int, key string) []storage.Swap {
	return []storage.Swap{creating(key, "x"), creating(key+"'s other", "x")}[:keys]
}

// limited is a client whose user may do all but one thing.
func limited(t *testing.T, server *servers.RedisServer, not ...string) *goredis.Client {
	user := "no-" + strings.Join(not, "-")
	rules := []string{"ACL", "SETUSER", user, "on", ">x", "~*", "&*", "+@all"}
	for _, command := range not {
		rules = append(rules, "-"+command)
	}
	do(t, server, rules...)
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr(), Username: user, Password: "x"})
	t.Cleanup(func() { client.Close() })
	return client
}

func TestForeignValuesAreNotSwapped(t *testing.T) {
	server := shared.Redis(t)
	for name, keys := range scripts {
		s := open(t, newClient(t, server.Addr()), t.Name()+name)
		do(t, server, "LPUSH", s.NameOf("list"), "x")
		do(t, server, "HSET", s.NameOf("hash"), "x", "y")
		do(t, server, "SET", s.NameOf("short"), "x")
		do(t, server, "SET", s.NameOf("empty"), "")
		for _, key := range []string{"list", "short", "empty", "hash"} {
			_, swapped, err := s.CompareAndSwap(t.Context(), group(keys, key)...)
			require.False(t, swapped)
			require.ErrorIs(t, err, storage.ErrNotApplied)
			require.NotErrorIs(t, err, storage.ErrUnavailable)
			if key == "list" || key == "hash" {
				require.ErrorContains(t, err, "redis: ERR WRONGTYPE")
			}
			require.Empty(t, stored(t, s, key+"'s other"), "all or nothing")
		}
		require.Equal(t, "1", do(t, server, "LLEN", s.NameOf("list")))
		require.Equal(t, "1", do(t, server, "HLEN", s.NameOf("hash")))
	}
}

// Nobody is told that was swapped what the server did not let the script write.
func TestARefusedWriteIsNoSwap(t *testing.T) {
	client := limited(t, shared.Redis(t), "set", "psetex")
	for name, keys := range scripts {
		for _, ttl := range []time.Duration{0, time.Hour} {
			s := open(t, client, fmt.Sprint(t.Name(), name, ttl))
			swaps := group(keys, "a")
			for i := range swaps {
				swaps[i].TTL = ttl
			}
			_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
			require.False(t, swapped)
			require.ErrorIs(t, err, storage.ErrNotApplied)
			require.ErrorContains(t, err, "The user")
		}
	}
}

// A key that is absent, and stays so, is not written: neither refused, nor a part of what
// is torn.
func TestWhatStaysAbsentIsNotWritten(t *testing.T) {
	s := open(t, limited(t, shared.Redis(t), "del"), t.Name())
	_, swapped, err := s.CompareAndSwap(t.Context(), storage.Swap{Key: "a"})
	require.NoError(t, err)
	require.True(t, swapped)

	s = open(t, limited(t, shared.Redis(t), "set"), t.Name())
	_, _, err = s.CompareAndSwap(t.Context(), storage.Swap{Key: "a"}, creating("b", "x"))
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.NotErrorIs(t, err, storage.ErrTorn)
}

func TestAFullServerWritesNothing(t *testing.T) {
	for name, keys := range scripts {
		server := servers.Redis(t)
		s := open(t, newClient(t, server.Addr()), "")
		create(t, s, creating("there", "x"))
		do(t, server, "CONFIG", "SET", "maxmemory", "1")
		_, _, err := s.CompareAndSwap(t.Context(), group(keys, "a")...)
		refuses(t, err)
		require.Equal(t, "1", do(t, server, "DBSIZE"), name)
	}
}

func TestEveryKeyHasItsOwnTTL(t *testing.T) {
	server := shared.Redis(t)
	s := open(t, newClient(t, server.Addr()), t.Name())
	var swaps []storage.Swap
	for i := range 4 {
		swap := creating(strconv.Itoa(i), "x")
		swap.TTL = time.Duration(i) * 100 * time.Hour
		swaps = append(swaps, swap)
	}
	create(t, s, swaps...)
	for _, swap := range swaps {
		left, err := strconv.ParseInt(do(t, server, "PTTL", s.NameOf(swap.Key)), 10, 64)
		require.NoError(t, err)
		if swap.TTL == 0 {
			require.EqualValues(t, -1, left)
		} else {
			require.InDelta(t, swap.TTL.Milliseconds(), left, float64(time.Hour.Milliseconds()))
		}
	}
}

func TestEveryByteOfAVersionCounts(t *testing.T) {
	s := open(t, newClient(t, shared.Redis(t).Addr()), t.Name())
	for name, keys := range scripts {
		for bit := 0; bit < 64; bit += 7 {
			swaps := group(keys, fmt.Sprint(name, bit))
			create(t, s, swaps...)
			next := after(swaps)
			next[keys-1].Old ^= 1 << bit
			_, swapped, err := s.CompareAndSwap(t.Context(), next...)
			require.NoError(t, err)
			require.False(t, swapped, "%s, bit %d", name, bit)
		}
	}
}

// A Ring sends nobody on: what it places by anything but the key is not found there.
func TestARingPlacesByKeys(t *testing.T) {
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
			[]storage.Swap{creating(driver.Key(tenant, "a"), "x"), creating(driver.Key(tenant, "b"), "x")})
	}
	create(t, s, creating("alone", "x"))
	for _, group := range groups {
		create(t, s, group...)
	}
	for _, group := range append(groups, []storage.Swap{{Key: "alone"}}) {
		for _, swap := range group {
			require.Equal(t, "x", stored(t, s, swap.Key))
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

func TestAnswersOfAnotherShapeAreErrors(t *testing.T) {
	for i, answer := range []any{nil, "OK", int64(1), []any{}, []any{"1"}, []any{nil}, []any{[]any{}}, []any{[]any{nil, nil, nil}}, []any{int64(1), int64(1)}} {
		client := newClient(t, shared.Redis(t).Addr())
		client.AddHook(hook(func(cmd goredis.Cmder, err error) error {
			if c, ok := cmd.(interface{ SetVal(any) }); ok && strings.HasPrefix(cmd.Name(), "eval") {
				c.SetVal(answer)
				cmd.SetErr(nil)
				return nil
			}
			return err
		}))
		s := open(t, client, t.Name())
		for name, keys := range scripts {
			_, swapped, err := s.CompareAndSwap(t.Context(), group(keys, fmt.Sprint(name, i))...)
			require.False(t, swapped)
			require.ErrorContains(t, err, "another shape", "%s: %v", name, answer)
		}
	}
}

// No proxy has made up what a script says.
func TestAScriptsWordIsProof(t *testing.T) {
	s, err := redis.New(limited(t, shared.Redis(t), "get"), redis.Options{Prefix: t.Name(), Spread: true})
	require.NoError(t, err)
	for _, keys := range scripts {
		_, _, err = s.CompareAndSwap(t.Context(), group(keys, "a")...)
		require.ErrorIs(t, err, storage.ErrNotApplied)
		require.NotErrorIs(t, err, storage.ErrUnavailable)
	}
}

func TestTTLsAndUntilsAreRoundedUp(t *testing.T) {
	var ttl, until string
	client := newClient(t, shared.Redis(t).Addr())
	client.AddHook(hook(func(cmd goredis.Cmder, err error) error {
		last := cmd.Args()[len(cmd.Args())-2:]
		ttl, until = fmt.Sprint(last[0]), fmt.Sprint(last[1])
		return err
	}))
	s := open(t, client, t.Name())
	for given, ms := range map[time.Duration]string{
		1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", time.Hour - 1: "3600000", math.MaxInt64: "9223372036855",
	} {
		swap := creating(given.String(), "x")
		swap.TTL = given
		create(t, s, swap)
		require.Equal(t, ms, ttl)
		require.Empty(t, until)
	}
	for given, want := range map[time.Time][2]string{
		time.Unix(-1, 999999999):             {"1", ""},
		time.Unix(0, 1):                      {"1", "1"},
		time.Unix(4e9, 0):                    {"1", "4000000000000"},
		time.Unix(4e9, 999_000_000):          {"1", "4000000000999"},
		time.Unix(4e9, 999_000_001):          {"1", "4000000001000"},
		time.Unix(1<<53/1000-1, 999_999_999): {"1", fmt.Sprint(1 << 53 / 1000 * 1000)},
		time.Unix(1<<53/1000, 0):             {"", ""},
	} {
		swap := creating(given.String(), "x")
		swap.TTL, swap.Until = 1, given
		create(t, s, swap)
		require.Equal(t, want, [2]string{ttl, until}, given)
	}
}

// A user who may not run TIME writes nothing that needs it.
func TestWithoutTIMENothingIsWritten(t *testing.T) {
	client := limited(t, shared.Redis(t), "time")
	for name, keys := range scripts {
		s := open(t, client, t.Name()+name)
		swaps := group(keys, "a")
		for i := range swaps {
			swaps[i].TTL, swaps[i].Until = time.Hour, time.Now()
		}
		_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
		require.False(t, swapped)
		require.ErrorIs(t, err, storage.ErrNotApplied)
		require.NotErrorIs(t, err, storage.ErrUnavailable)
		require.ErrorContains(t, err, "The user")
		require.Empty(t, stored(t, s, "a"))
	}
}

// Hooks that trace render what is no string by fmt, and OTLP refuses what is no text.
func TestCommandsAreShownAsText(t *testing.T) {
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
	swap := creating(driver.Key("", "rule", "ann"), "x")
	swap.New.Version = 1<<64 - 1
	create(t, s, swap)
	require.Contains(t, shown, `rule\x03ann`, "whose limit it was")
}
