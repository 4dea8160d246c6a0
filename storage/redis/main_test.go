// The tests of this package promise:
//
//   - The store obeys the laws of package storagetest on one server, on a cluster and over a Unix
//     socket (laws_test.go, cluster_test.go).
//   - A swap and a batch are one command each (swap_script_test.go, run_test.go).
//   - Whatever happens to a message, errors report correctly whether a write was applied, and no write
//     is applied twice (fault_sweep_test.go, client_retry_test.go, batch_fault_test.go,
//     not_sent_test.go, proxy_error_test.go, run_reply_test.go).
//   - Errors have the reason of the server (refusal_test.go).
//   - Each call ends at its deadline, whatever timeouts the client has (deadline_test.go).
//   - A server that cannot serve writes nothing (unavailable_test.go). Failovers and moving slots lose
//     only what the package comment says (failover_test.go, resharding_test.go). A silent server of a
//     Ring fails only its keys (ring_test.go).
package redis_test

import (
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

var shared servers.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m, servers.RedisPrograms)) }

const (
	longTimeout  = 60 * time.Second       // no call reaches it
	shortTimeout = 500 * time.Millisecond // enough for a reply, and a short wait if there is none
	slack        = time.Second            // how late a call on a busy machine may end
)

func newClient(t *testing.T, addr string) *goredis.Client {
	t.Helper()
	return newClientWith(t, goredis.Options{Addr: addr})
}

func newClientWith(t *testing.T, o goredis.Options) *goredis.Client {
	t.Helper()
	client := goredis.NewClient(&o)
	t.Cleanup(func() { client.Close() })
	return client
}

// newClientOf returns a client whose user has only the rights of these ACL rules.
func newClientOf(t *testing.T, server *servers.RedisServer, user string, rules ...string) *goredis.Client {
	t.Helper()
	do(t, server, append([]string{"ACL", "SETUSER", user, "reset", "on", ">x"}, rules...)...)
	return newClientWith(t, goredis.Options{Addr: server.Addr(), Username: user, Password: "x"})
}

func do(t *testing.T, server *servers.RedisServer, command ...string) string {
	t.Helper()
	reply, err := server.Do(command...)
	require.NoError(t, err)
	return reply
}

// creating returns a swap that creates a record.
func creating(key, state string) storage.Swap {
	return storage.Swap{Key: key, New: storage.Record{Version: storage.NewVersion(), State: []byte(state)}}
}

// updating returns swaps that replace the records of other swaps with the state "updated".
func updating(swaps []storage.Swap) []storage.Swap {
	var next []storage.Swap
	for _, s := range swaps {
		n := creating(s.Key, "updated")
		n.Old = s.New.Version
		next = append(next, n)
	}
	return next
}

// swap makes swaps, which must succeed.
func swap(t *testing.T, s storage.Store, swaps ...storage.Swap) {
	t.Helper()
	_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
	require.NoError(t, err)
	require.True(t, swapped)
}

// textOf returns the text of a key.
func textOf(group, key string) string {
	return driver.RuleKey{Group: group, Rule: driver.Rule("", "test", "test"), Key: key}.String()
}

// loadScripts makes the server know the scripts that swap.
func loadScripts(t *testing.T, s storage.Store) {
	t.Helper()
	for n := range 2 {
		_, _, err := s.CompareAndSwap(t.Context(), creatingN(n+1, textOf("warm", "a"))...)
		require.NoError(t, err)
	}
}

// creatingN returns swaps that create n records, at most 2.
func creatingN(n int, key string) []storage.Swap {
	return []storage.Swap{creating(key, "x"), creating(key+" 2", "x")}[:n]
}

// stored returns the state of a key.
func stored(t *testing.T, s storage.Store, key string) string {
	t.Helper()
	records, _, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	return string(records[0].State)
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, longTimeout, time.Millisecond)
}

// requireNotApplied checks that err allows a retry and reports that nothing was applied.
func requireNotApplied(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.ErrorIs(t, err, storage.ErrNotApplied)
}

// requireUnknown checks that err reports that a write may have been applied.
func requireUnknown(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.NotErrorIs(t, err, storage.ErrNotApplied)
}
