package redis

import (
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/storagetest"
)

func TestEachFaultInTheScriptsBreaksALaw(t *testing.T) {
	server := servers.Redis(t)
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	for _, fault := range []struct {
		script   *string
		from, to string
	}{
		{&runLua, "found_version == version", "false"},
		{&runLua, "math.min(outcome, 0)", "outcome"},
		{&runLua, "allowed = allowed and shadow == 1", "allowed = false"},
		{&runLua, "or shadow == 0 then", "then"},
		{&runLua, "elseif failed[key] then", "elseif false then"},
		{&runLua, "if allowed and outcome >= 0", "if outcome >= 0"},
		{&runLua, "= key, state, ttl", "= key, state, nil"},
		{&runLua, "ceil(ttl / 1000000) + margin\n", "ceil(ttl / 1000000)\n"},
		{&runLua, "if given == 1 then", "if false then"},
		{&runLua, "found[i] or pcall('GET', KEYS[i])", "found[i]"},
		{&runLua, "op == 4 and", "op == 3 and"},
		{&runLua, "op == 1 and 'refund'", "op == 2 and 'refund'"},
		{&runLua, "lo = low % WORD", "lo = 0"},
		{&runLua, "1953125", "1953124"},
		{&runLua, "found[i] and write('DEL', KEYS[i])", "false"},
		{&runOneLua, "found_version ~= version", "true"},
		{&runOneLua, "+ margin\n    if", "\n    if"},
		{&runOneLua, "if given == 1 then", "if false then"},
		{&runOneLua, "1953125", "1953124"},
		{&runOneLua, "op == 1 and 'refund'", "op == 2 and 'refund'"},
		{&runOneLua, "hi, lo, 0), pack('>I4', 1) .. failed }", "hi, lo, 0) }"},
		{&runOneLua, "if value then call('DEL', key) end", ""},
	} {
		right := *fault.script
		require.Contains(t, right, fault.from)
		*fault.script = strings.ReplaceAll(right, fault.from, fault.to)
		assert.NotEmpty(t, brokenLaw(t, client), "%q instead of %q", fault.to, fault.from)
		*fault.script = right
	}
}

// brokenLaw returns the name of the first law for driver.Server that a new store breaks.
func brokenLaw(t *testing.T, client *goredis.Client) string {
	t.Helper()
	for _, law := range storagetest.Laws() {
		if !law.Applies(struct{ driver.Server }{}) || law.Applies(struct{ storage.Store }{}) {
			continue
		}
		require.NoError(t, client.FlushAll(t.Context()).Err())
		s, err := New(client, Options{Prefix: "one:"})
		require.NoError(t, err)
		other, err := New(client, Options{Prefix: "other:"})
		require.NoError(t, err)
		if law.Check(storagetest.Harness{
			Store: s, Other: other, Slack: 2 * time.Millisecond, Timeout: 5 * time.Second,
			Advance: func(d time.Duration) { advance(t, client, d) },
			Spoil:   func(key string) { require.NoError(t, client.LPush(t.Context(), s.key(key), "x").Err()) },
		}) != nil {
			return law.Name
		}
	}
	return ""
}

// advance moves each expiry nearer by d.
func advance(t *testing.T, client *goredis.Client, d time.Duration) {
	t.Helper()
	const script = `
for _, key in ipairs(redis.call('KEYS', '*')) do
	local left = redis.call('PTTL', key)
	if left >= 0 and left < tonumber(ARGV[1]) then
		redis.call('DEL', key)
	elseif left >= 0 then
		redis.call('PEXPIRE', key, math.max(left - ARGV[1], 1))
	end
end
return 1`
	require.NoError(t, client.Eval(t.Context(), script, nil, d.Milliseconds()).Err())
}
