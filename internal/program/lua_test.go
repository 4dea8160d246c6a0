package program_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/program"
	"github.com/sluice-go/sluice/internal/testing/servers"
)

// runCalls is a script that runs a program for many calls.
const runCalls = `
local p, replies = read(ARGV[1], 1), {}
for i = 2, #ARGV, 5 do
  local count, next, ttl = p.run(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), p)
  replies[#replies + 1] = { count, next or '', string.format('%.0f', ttl or 0) }
end
return replies`

// onRedis returns a runner of programs on a server.
func onRedis(client *goredis.Client, edit func(string) string) runner {
	return func(p algo.Program, calls []programCall) ([]programReply, error) {
		script, err := program.Lua(runCalls, &p)
		if err != nil {
			return nil, err
		}
		args := []any{program.AppendArgs(nil, &p)}
		for _, c := range calls {
			args = append(args, c.Op, c.State, c.At, c.Cost, c.Times)
		}
		rows, err := client.Eval(context.Background(), edit(script), nil, args...).Slice()
		if err != nil {
			return nil, err
		}
		replies := make([]programReply, len(rows))
		for i, row := range rows {
			fields, ok := row.([]any)
			if !ok || len(fields) != 3 {
				return nil, fmt.Errorf("reply %d is %v", i, row)
			}
			ttl, err := strconv.ParseInt(fields[2].(string), 10, 64)
			if err != nil {
				return nil, err
			}
			replies[i] = programReply{Count: fields[0].(int64), Next: []byte(fields[1].(string)), TTL: ttl}
		}
		return replies, nil
	}
}

func unchanged(script string) string { return script }

func newClient(t testing.TB) *goredis.Client {
	t.Helper()
	server := servers.Redis(t)
	client := goredis.NewClient(&goredis.Options{Network: "unix", Addr: server.Socket(), ReadTimeout: -1})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func TestLuaProgramsAgreeWithStep(t *testing.T) {
	client := newClient(t)
	for i, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			require.NoError(t, s.check(uint64(i), cases(), onRedis(client, unchanged)))
		})
	}
}

func TestInvalidProgramsAreRefused(t *testing.T) {
	for _, programs := range [][]*algo.Program{
		{{Name: "mine", Lua: "return 1"}, {Name: "mine", Lua: "return 2"}},
		{{Name: "mine", Lua: "return 1"}, {Parts: []algo.Program{{Name: "mine", Lua: "return 2"}}}},
		{{Name: "all", Lua: "return 1"}},
		{{Name: "", Lua: "return 1"}},
		{{Name: "mine"}},
	} {
		_, err := program.Lua("", programs...)
		require.ErrorContains(t, err, "program: ")
	}
	_, err := program.Lua("", &algo.Program{Name: "mine", Lua: "return 1"}, &algo.Program{Name: "mine", Lua: "return 1"})
	require.NoError(t, err)
}

// FuzzLua checks that a program agrees with Step, or declines, for any state.
func FuzzLua(f *testing.F) { fuzz(f, onRedis(newClient(f), unchanged)) }

func TestEachFaultInLuaIsFound(t *testing.T) {
	client := newClient(t)
	checkFaults(t, []fault{
		{"gcra", "seen + cost * unit > burst", "seen + cost * unit >= burst"},
		{"gcra", "paid = cost * times", "paid = cost"},
		{"gcra", "passed >= level / drain", "passed >= floor(level / drain)"},
		{"gcra", "if level <= 0", "if level == 0"},
		{"gcra", "level + skew * drain, MAX", "level, MAX"},
		{"gcra", "ceil(level / was)", "floor(level / was)"},
		{"gcra", "skew + ceil(level / drain)", "skew + floor(level / drain)"},
		{"gcra", "paid = -min(cost, ceil(level / unit))", "paid = -min(cost, floor(level / unit))"},
		{"gcra", "or was < 1", ""},
		{"gcra", "paid == 0 and state or ''", "state"},
		{"tokenbucket", "max(0, now - at)", "max(-1, now - at)"},
		{"tokenbucket", "version ~= 1 or", ""},
		{"tokenbucket by interval", "refills * every", "refills"},
		{"tokenbucket by interval", "level = min(level, most)", ""},
		{"fixedwindow", "now >= ends", "now > ends"},
		{"fixedwindow", "or used < 1", ""},
		{"fixedwindow by the clock", "period - offset) % period", "period) % period"},
		{"movingwindow", "ceil(trailing * overlap / weight)", "floor(trailing * overlap / weight)"},
		{"movingwindow", "max(stored, now)", "now"},
		{"movingwindow", "was ~= width or", ""},
		{"movingwindow of 12 slots", "counts[i + older] = counts[i]", ""},
		{"movingwindow of 12 slots", "slots + 2 - first", "slots + 1"},
		{"movingwindow of any slots", "n = min(n, slots + 1 - older)", ""},
		{"movingwindow of 3 whole slots", "limit - recent - ceil", "limit - recent - 0 * ceil"},
		{"movingwindow of units that are held", "floor((paidAt - 1) / width) + 1", "floor((paidAt - 1) / width)"},
		{"movingwindow of units that are held", "min(oldest, n)", "n"},
		{"movingwindow of units that are held", "changed = given > 0", ""},
		{"movingwindow of units that are held", "or counts[newest] < cost", ""},
		{"movingwindow of units that are held", "if newest > 1 then", "if newest > 2 then"},
		{"movingwindow of units that are held", "times = min(times, floor(counts[newest] / cost))", ""},
		{"a stack", "if counts[i] > least then", "if false then"},
		{"a stack", "max(longest, ttls[i] or 0)", "ttls[i] or longest"},
		{"a stack", "used and from", "from"},
	}, func(edit func(string) string) runner { return onRedis(client, edit) })
}
