package redis_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/redis"
	"github.com/sluice-go/sluice/storage/storagetest"
)

func TestEachFaultInTheScriptsBreaksALaw(t *testing.T) {
	client := newClient(t, shared.Redis(t).Addr())
	const (
		anyBatch    = "any batch is decided as in Go"
		unreadable  = "a key that cannot be read fails alone"
		margin      = "the margin is added to TTLs"
		laterTime   = "a batch with a later time keeps its records longer"
		owned       = "the caller owns the records of a batch"
		leftTTLs    = "a batch returns the TTLs of denied requests"
		serverClock = "a batch without a time uses the server's clock"
	)
	for _, fault := range []struct {
		script        *string
		law, from, to string
	}{
		{redis.RunLua, anyBatch, "found_version == version", "false"},
		{redis.RunLua, unreadable, "min(outcome, 0)", "outcome"},
		{redis.RunLua, anyBatch, "allowed = allowed and shadow == 1", "allowed = false"},
		{redis.RunLua, anyBatch, "or shadow == 0 then", "then"},
		{redis.RunLua, unreadable, "elseif failed[key] then", "elseif false then"},
		{redis.RunLua, unreadable, "if allowed and outcome >= 0", "if outcome >= 0"},
		{redis.RunLua, "a batch sets TTLs", "= key, state, ttl", "= key, state, nil"},
		{redis.RunLua, margin, "/ 1000) + margin\n", "/ 1000)\n"},
		{redis.RunLua, laterTime, "max(now - server, 0) + ttl", "ttl"},
		{redis.RunLua, owned, "found[i] or pcall('GET', KEYS[i])", "found[i]"},
		{redis.RunLua, anyBatch, "op == 4 and", "op == 5 and"},
		{redis.RunLua, leftTTLs, "read_ttl[key] = true", ""},
		{redis.RunOneLua, leftTTLs, "and left >= 0", "and false"},
		{redis.RunLua, anyBatch, "op == 1 and 'refund'", "op == 2 and 'refund'"},
		{redis.RunLua, serverClock, "time[1] * 1000000", "time[1] * 1000001"},
		{redis.RunLua, anyBatch, "found[i] and write('DEL', KEYS[i])", "false"},
		{redis.RunOneLua, anyBatch, "found_version ~= version", "true"},
		{redis.RunOneLua, margin, "/ 1000) + margin end", "/ 1000) end"},
		{redis.RunOneLua, laterTime, "max(now - server, 0) + ttl", "ttl"},
		{redis.RunOneLua, serverClock, "time[1] * 1000000", "time[1] * 1000001"},
		{redis.RunOneLua, anyBatch, "op == 1 and 'refund'", "op == 2 and 'refund'"},
		{redis.RunOneLua, unreadable, "now, 0), pack('>I4', 1) .. failed }", "now, 0) }"},
		{redis.RunOneLua, anyBatch, "if value then call('DEL', key) end", ""},
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
	h := harness(client)(t)
	h.Timeout = 5 * time.Second
	return laws[i].Check(h)
}
