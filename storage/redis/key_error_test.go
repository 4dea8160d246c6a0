package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

// Errors are logged, and keys may be secret.
func TestErrorsContainNoKey(t *testing.T) {
	const secret = "TOPSECRET"
	_, p := programOf(t, algo.Per(2, time.Hour))
	server := servers.Redis(t)
	client := newClient(t, server.Addr())
	noScripts := servers.Redis(t, "rename-command EVALSHA \"\"", "rename-command EVAL \"\"")
	noDel := newClientOf(t, server, "no-del", allBut("del")...)
	proxy, err := redis.New(newClient(t, noScripts.Addr()), redis.Options{Proxy: true})
	require.NoError(t, err)
	s := open(t, client, "")
	do(t, server, "SET", s.NameOf(secret), "x")
	do(t, server, "LPUSH", s.NameOf(secret+" list"), "x")
	runOK(t, s, oneRequest(p, secret+" reset"))
	errs := map[string]error{}
	use := func(name string, s *redis.Store, keys ...string) {
		_, _, errs[name+": load"] = s.Load(t.Context(), keys...)
		var swaps []storage.Swap
		for _, key := range keys {
			swaps = append(swaps, creating(key, "x"))
		}
		_, _, errs[name+": swap"] = s.CompareAndSwap(t.Context(), swaps...)
		b := oneRequest(p, keys...)
		run(t, s, b)
		errs[name+": run"] = b.Err
		if b.KeyErr != nil {
			errs[name+": run"] = b.KeyErr[len(keys)-1]
		}
	}
	use("no record", s, "a", secret)
	for _, kind := range []string{"load", "swap", "run"} {
		var of *storage.KeyError
		require.ErrorAs(t, errs["no record: "+kind], &of, kind)
		require.Equal(t, secret, of.Key)
	}
	use("a list", s, secret+" list")
	use("twice", s, secret, secret)
	use("no scripts", open(t, newClient(t, noScripts.Addr()), ""), secret)
	require.ErrorContains(t, errs["no scripts: run"], "unknown command 'evalsha'")
	use("no scripts, by a proxy", proxy, secret)
	runOK(t, open(t, noDel, ""), oneRequest(p, secret+" full"))
	b := requestEach(p, secret+" other", secret+" full")
	b.Requests[1].Uses[0].Op = driver.Refund // which deletes the record
	run(t, open(t, noDel, ""), b)
	require.NoError(t, b.Err)
	errs["partial write"] = b.KeyErr[1]
	require.ErrorIs(t, errs["partial write"], storage.ErrPartialWrite)
	_, _, errs["negative TTL"] = s.CompareAndSwap(t.Context(), storage.Swap{Key: secret, TTL: -1})
	for name, err := range errs {
		if err != nil {
			require.NotContains(t, err.Error(), secret, name)
			require.NotContains(t, err.Error(), secret[:6], name)
		}
	}
}
