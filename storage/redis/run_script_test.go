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
		{redis.RunLua, unreadable, "min(outcome, 0)", "outcome"},
		{redis.RunLua, anyBatch, "allowed = allowed and shadow == 1", "allowed = false"},
		{redis.RunLua, anyBatch, "or shadow == 0 then", "then"},
		{redis.RunLua, unreadable, "if failed and failed[key] then", "if false then"},
		{redis.RunLua, unreadable, "while allowed and outcome >= 0", "while outcome >= 0"},
		{redis.RunLua, "a batch sets TTLs", "next, ttl or 0, changes }", "next, 0, changes }"},
		{redis.RunLua, margin, "/ 1000) + margin\n", "/ 1000)\n"},
		{redis.RunLua, laterTime, "max(now - server, 0) + ttl", "ttl"},
		{redis.RunLua, owned, "found[i] or pcall('GET', KEYS[i])", "found[i]"},
		{redis.RunLua, leftTTLs, "denied[key] = true", ""},
		{redis.RunLua, anyBatch, "'refund', 'charge'", "'charge', 'refund'"},
		{redis.RunLua, serverClock, "time[1] * 1000000", "time[1] * 1000001"},
		{redis.RunLua, anyBatch, "found[i] and write('DEL', KEYS[i])", "false"},
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
