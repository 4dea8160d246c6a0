package redis

import (
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage/storagetest"
)

func TestEachFaultInTheScriptsBreaksALaw(t *testing.T) {
	server := servers.Redis(t)
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	const (
		anyBatch    = "any batch is decided as in Go"
		unreadable  = "a key that cannot be read fails alone"
		margin      = "the margin is added to TTLs"
		laterTime   = "a batch with a later time keeps its records longer"
		owned       = "the caller owns the records of a batch"
		serverClock = "a batch without a time uses the server's clock"
	)
	for _, fault := range []struct {
		script        *string
		law, from, to string
	}{
		{&runLua, anyBatch, "found_version == version", "false"},
		{&runLua, unreadable, "math.min(outcome, 0)", "outcome"},
		{&runLua, anyBatch, "allowed = allowed and shadow == 1", "allowed = false"},
		{&runLua, anyBatch, "or shadow == 0 then", "then"},
		{&runLua, unreadable, "elseif failed[key] then", "elseif false then"},
		{&runLua, unreadable, "if allowed and outcome >= 0", "if outcome >= 0"},
		{&runLua, "a batch sets TTLs", "= key, state, ttl", "= key, state, nil"},
		{&runLua, margin, "ceil(ttl / 1000000) + margin\n", "ceil(ttl / 1000000)\n"},
		{&runLua, laterTime, "if given == 1 then", "if false then"},
		{&runLua, owned, "found[i] or pcall('GET', KEYS[i])", "found[i]"},
		{&runLua, owned, "op == 4 and", "op == 3 and"},
		{&runLua, anyBatch, "op == 1 and 'refund'", "op == 2 and 'refund'"},
		{&runLua, anyBatch, "lo = low % WORD", "lo = 0"},
		{&runLua, serverClock, "1953125", "1953124"},
		{&runLua, anyBatch, "found[i] and write('DEL', KEYS[i])", "false"},
		{&runOneLua, anyBatch, "found_version ~= version", "true"},
		{&runOneLua, margin, "+ margin\n    if", "\n    if"},
		{&runOneLua, laterTime, "if given == 1 then", "if false then"},
		{&runOneLua, serverClock, "1953125", "1953124"},
		{&runOneLua, anyBatch, "op == 1 and 'refund'", "op == 2 and 'refund'"},
		{&runOneLua, unreadable, "hi, lo, 0), pack('>I4', 1) .. failed }", "hi, lo, 0) }"},
		{&runOneLua, anyBatch, "if value then call('DEL', key) end", ""},
	} {
		right := *fault.script
		require.Contains(t, right, fault.from)
		*fault.script = strings.ReplaceAll(right, fault.from, fault.to)
		assert.Error(t, checkLaw(t, client, fault.law), "%q instead of %q", fault.to, fault.from)
		*fault.script = right
	}
}

// checkLaw checks a law on new stores.
func checkLaw(t *testing.T, client *goredis.Client, name string) error {
	t.Helper()
	laws := storagetest.Laws()
	i := slices.IndexFunc(laws, func(l storagetest.Law) bool { return l.Name == name })
	require.GreaterOrEqual(t, i, 0, "no law %q", name)
	require.NoError(t, client.FlushAll(t.Context()).Err())
	s, err := New(client, Options{Prefix: "one:"})
	require.NoError(t, err)
	other, err := New(client, Options{Prefix: "other:"})
	require.NoError(t, err)
	return laws[i].Check(storagetest.Harness{
		Store: s, Other: other, Slack: 2 * time.Millisecond, Timeout: 5 * time.Second,
		Advance: func(d time.Duration) { advance(t, client, d) },
		Spoil:   func(key string) { require.NoError(t, client.LPush(t.Context(), s.key(key), "x").Err()) },
	})
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
