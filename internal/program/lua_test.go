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
	"github.com/sluice-go/sluice/internal/servers"
)

// runCalls is a script that runs a program for many calls.
const runCalls = `
local p, replies = read(ARGV[1], 1), {}
for i = 2, #ARGV, 6 do
  local count, next, ttl = p.run(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), p.args)
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
			args = append(args, c.Op, c.State, c.At>>32, c.At&(1<<32-1), c.Cost, c.Times)
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
		{"gcra", "burst * period - owed, cost", "burst * period - owed - 1, cost"},
		{"gcra", "cost, price = cost * times, price * times", ""},
		{"gcra", "if part > 0 then before = before + 1 end", ""},
		{"gcra", "if behind then\n      used", "if false then\n      used"},
		{"gcra", "math.ceil(owed / count)", "math.floor(owed / count)"},
		{"gcra", " or part >= period then", " then"},
		{"gcra", "part % divisor ~= 0", "false"},
		{"tokenbucket", "accrued >= missing", "accrued > missing + 1"},
		{"tokenbucket", "hi, lo = at_hi, at_lo", ""},
		{"tokenbucket by interval", "used - refills * batch", "used - refills"},
		{"fixedwindow", "left <= 0", "left < 0"},
		{"fixedwindow by the clock", "rest > period - offset", "rest >= period - offset"},
		{"movingwindow", "if rest > 0 then share = share + 1 end", ""},
		{"movingwindow", "rest * base + digits[i] * b", "rest * base + digits[i]"},
		{"movingwindow of 12 slots", "counts[i - age]", "counts[i]"},
		{"movingwindow of any slots", "n > slots + 1 then", "false then"},
		{"movingwindow of 3 whole slots", "whole == 0 and ", ""},
		{"a stack", "if counts[i] > least then", "if false then"},
		{"a stack", "math.max(longest, ttls[i] or 0)", "ttls[i] or longest"},
		{"a stack", "used and from", "from"},
	}, func(f fault) runner {
		return onRedis(client, func(script string) string { return f.in(t, script) })
	})
}
