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

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

// script is a way to make and swap groups that one of the scripts is for.
type script struct {
	keys  int  // of a group
	apart bool // is each group on its way
}

var scripts = map[string]script{"single": {1, true}, "each": {1, false}, "together": {2, false}}

// groups create a key each, and maybe another.
func (s script) groups(keys ...string) (groups [][]storage.Swap) {
	for _, key := range keys {
		groups = append(groups, []storage.Swap{creating(key, "x"), creating(key+"'s other", "x")}[:s.keys])
	}
	return groups
}

func (s script) swap(t *testing.T, store storage.Batcher, groups [][]storage.Swap) (outcomes []storage.Outcome) {
	if !s.apart {
		return store.CompareAndSwapBatch(t.Context(), groups...)
	}
	for _, group := range groups {
		outcomes = append(outcomes, store.CompareAndSwapBatch(t.Context(), group)...)
	}
	return outcomes
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

func TestStrangersAreOfTheirGroup(t *testing.T) {
	server := shared.Redis(t)
	for name, script := range scripts {
		s := open(t, newClient(t, server.Addr()), t.Name()+name)
		do(t, server, "LPUSH", s.NameOf("list"), "x")
		do(t, server, "HSET", s.NameOf("hash"), "x", "y")
		do(t, server, "SET", s.NameOf("short"), "x")
		do(t, server, "SET", s.NameOf("empty"), "")
		groups := script.groups("a", "list", "b", "short", "c", "empty", "d", "hash", "e")
		for i, o := range script.swap(t, s, groups) {
			if i%2 == 0 {
				require.Equal(t, storage.Outcome{Swapped: true}, o)
				continue
			}
			require.ErrorIs(t, o.Err, storage.ErrNotApplied)
			require.NotErrorIs(t, o.Err, storage.ErrUnavailable)
			if key := groups[i][0].Key; key == "list" || key == "hash" {
				require.ErrorContains(t, o.Err, "redis: ERR WRONGTYPE")
			}
		}
		require.Equal(t, "1", do(t, server, "LLEN", s.NameOf("list")))
		require.Equal(t, "1", do(t, server, "HLEN", s.NameOf("hash")))
	}
}

// After another group has written, and before a third does.
func TestARefusedWriteIsOfItsGroup(t *testing.T) {
	client := limited(t, shared.Redis(t), "del")
	for name, script := range scripts {
		s := open(t, client, t.Name()+name)
		there := creating("there", "x")
		create(t, s, there)
		groups := script.groups("first", "second", "last")
		groups[1] = append([]storage.Swap{{Key: "there", Old: there.New.Version}}, groups[1][1:]...)
		outcomes := script.swap(t, s, groups)
		require.Equal(t, storage.Outcome{Swapped: true}, outcomes[0])
		require.ErrorIs(t, outcomes[1].Err, storage.ErrNotApplied)
		require.NotErrorIs(t, outcomes[1].Err, storage.ErrTorn, "others have written, this one has not")
		require.ErrorContains(t, outcomes[1].Err, "The user")
		require.Equal(t, storage.Outcome{Swapped: true}, outcomes[2])
		require.Equal(t, "x", stored(t, s, "there"))
		require.Equal(t, "x", stored(t, s, "last"))
		require.Empty(t, stored(t, s, "second's other"), "nothing of a group is written after what was refused")
	}
}

// Nobody is told that was swapped what the server did not let the script write.
func TestARefusedWriteIsNoSwap(t *testing.T) {
	client := limited(t, shared.Redis(t), "set", "psetex")
	for name, script := range scripts {
		for _, ttl := range []time.Duration{0, time.Hour} {
			s := open(t, client, fmt.Sprint(t.Name(), name, ttl))
			groups := script.groups("a", "b")
			for _, group := range groups {
				for i := range group {
					group[i].TTL = ttl
				}
			}
			for _, o := range script.swap(t, s, groups) {
				require.False(t, o.Swapped)
				require.ErrorIs(t, o.Err, storage.ErrNotApplied)
				require.ErrorContains(t, o.Err, "The user")
			}
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
	outcomes := s.CompareAndSwapBatch(t.Context(), []storage.Swap{{Key: "a"}, creating("b", "x")}, []storage.Swap{{Key: "c"}})
	require.ErrorIs(t, outcomes[0].Err, storage.ErrNotApplied)
	require.NotErrorIs(t, outcomes[0].Err, storage.ErrTorn)
}

func TestAFullServerWritesNothing(t *testing.T) {
	for name, script := range scripts {
		server := servers.Redis(t)
		s := open(t, newClient(t, server.Addr()), "")
		create(t, s, creating("there", "x"))
		do(t, server, "CONFIG", "SET", "maxmemory", "1")
		keys := []string{"there", "a", "b"}
		if script.apart { // there it is a conflict, which needs no room
			keys = keys[1:]
		}
		for _, o := range script.swap(t, s, script.groups(keys...)) {
			refuses(t, o.Err)
		}
		require.Equal(t, "1", do(t, server, "DBSIZE"), name)
	}
}

func TestEveryKeyHasItsOwnTTL(t *testing.T) {
	server := shared.Redis(t)
	for name, script := range scripts {
		s := open(t, newClient(t, server.Addr()), t.Name()+name)
		groups, n := script.groups("a", "b", "c", "d"), 0
		for _, group := range groups {
			for i := range group {
				group[i].TTL = time.Duration(n%4) * 100 * time.Hour
				n++
			}
		}
		for _, o := range script.swap(t, s, groups) {
			require.Equal(t, storage.Outcome{Swapped: true}, o)
		}
		for _, group := range groups {
			for _, swap := range group {
				left, err := strconv.ParseInt(do(t, server, "PTTL", s.NameOf(swap.Key)), 10, 64)
				require.NoError(t, err)
				if swap.TTL == 0 {
					require.EqualValues(t, -1, left)
				} else {
					require.InDelta(t, swap.TTL.Milliseconds(), left, float64(time.Hour.Milliseconds()))
				}
			}
		}
	}
}

func TestEveryByteOfAVersionCounts(t *testing.T) {
	s := open(t, newClient(t, shared.Redis(t).Addr()), t.Name())
	for name, script := range scripts {
		for bit := 0; bit < 64; bit += 7 {
			groups := script.groups(fmt.Sprint(name, bit), fmt.Sprint(name, bit, " beside"))
			create(t, s, groups[0]...)
			groups[0] = after(groups[0])
			groups[0][script.keys-1].Old ^= 1 << bit
			outcomes := script.swap(t, s, groups)
			require.NoError(t, outcomes[0].Err)
			require.False(t, outcomes[0].Swapped, "%s, bit %d", name, bit)
			require.True(t, outcomes[1].Swapped)
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
			[]storage.Swap{creating(storage.Key(tenant, "a"), "x"), creating(storage.Key(tenant, "b"), "x")})
	}
	create(t, s, creating("alone", "x"))
	for _, o := range s.CompareAndSwapBatch(t.Context(), groups...) {
		require.Equal(t, storage.Outcome{Swapped: true}, o)
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
		for name, script := range scripts {
			_, swapped, err := s.CompareAndSwap(t.Context(), script.groups(fmt.Sprint(name, i))[0]...)
			require.False(t, swapped)
			require.ErrorContains(t, err, "another shape", "%s: %v", name, answer)
		}
	}
}

func TestSixtyFourKeysShareACommand(t *testing.T) {
	proxy := faultproxy.Redis(t, shared.Redis(t).Addr())
	s := open(t, newClient(t, proxy.Addr()), t.Name())
	know(t, s)
	proxy.Only(isWrite)
	for commands, sizes := range map[int][][]int{
		1: {{64}, {63, 1}},
		2: {{63, 2}, {1, 64}, {65, 1}},
		3: {{1, 65, 1}, {32, 32, 1, 63, 1}, {999, 1000, 8500}},
	} {
		for _, sizes := range sizes {
			var groups [][]storage.Swap
			for i, size := range sizes {
				var group []storage.Swap
				for j := range size {
					group = append(group, creating(fmt.Sprint(sizes, i, " ", j), "x"))
				}
				groups = append(groups, group)
			}
			proxy.Plan()
			for _, o := range s.CompareAndSwapBatch(t.Context(), groups...) {
				require.Equal(t, storage.Outcome{Swapped: true}, o)
			}
			require.Equal(t, commands, proxy.Seen(), "%v", sizes)
		}
	}
}

// What a script says of its group no proxy has made up.
func TestAScriptsWordIsProof(t *testing.T) {
	s, err := redis.New(limited(t, shared.Redis(t), "get"), redis.Options{Prefix: t.Name(), Spread: true})
	require.NoError(t, err)
	for _, script := range scripts {
		_, _, err = s.CompareAndSwap(t.Context(), script.groups("a")[0]...)
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
	for name, script := range scripts {
		s := open(t, client, t.Name()+name)
		groups := script.groups("a", "b")
		for _, group := range groups {
			for i := range group {
				group[i].TTL, group[i].Until = time.Hour, time.Now()
			}
		}
		for _, o := range script.swap(t, s, groups) {
			require.False(t, o.Swapped)
			require.ErrorIs(t, o.Err, storage.ErrNotApplied)
			require.NotErrorIs(t, o.Err, storage.ErrUnavailable)
			require.ErrorContains(t, o.Err, "The user")
		}
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
	swap := creating(storage.Key("", "rule", "ann"), "x")
	swap.New.Version = 1<<64 - 1
	create(t, s, swap)
	require.Contains(t, shown, `rule\x03ann`, "whose limit it was")
}
