// The tests of this package promise:
//
//   - The store obeys the laws of package storagetest on one server, on a cluster and over a Unix
//     socket (laws_test.go, cluster_test.go).
//   - A swap and a batch are one command each, for which the user needs only the documented rights
//     (command_test.go).
//   - Whatever happens to a message, errors report correctly whether a write was applied, and no write
//     is applied twice (laws_test.go, fault_test.go, run_reply_test.go).
//   - A server that cannot serve writes nothing, and errors have its reason (failure_test.go).
//   - Each call ends at its deadline, whatever timeouts the client has (fault_test.go).
//   - Failovers and moving slots lose only what the package comment says (failover_test.go). Place returns
//     the server of a key, also in a Ring (cluster_test.go).
package redis_test

import (
	"context"
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
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

// allBut returns ACL rules that permit all commands except one or more.
func allBut(commands ...string) []string {
	rules := []string{"~*", "&*", "+@all"}
	for _, command := range commands {
		rules = append(rules, "-"+command)
	}
	return rules
}

func open(t *testing.T, client goredis.UniversalClient, prefix string) *redis.Store {
	s, err := redis.New(client, redis.Options{Prefix: prefix})
	require.NoError(t, err)
	return s
}

// sharedStore returns a store on the shared server, with a prefix of the test.
func sharedStore(t *testing.T) *redis.Store {
	return open(t, newClient(t, shared.Redis(t).Addr()), t.Name())
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

// creatingN returns swaps that create n records, at most 2.
func creatingN(n int, key string) []storage.Swap {
	return []storage.Swap{creating(key, "x"), creating(key+" 2", "x")}[:n]
}

// updating returns swaps that replace the records of other swaps with the state "updated".
func updating(swaps ...storage.Swap) []storage.Swap {
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

// stored returns the state of a key.
func stored(t *testing.T, s storage.Store, key string) string {
	t.Helper()
	records, _, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	return string(records[0].State)
}

// policy refills no unit during a test.
var policy = sluice.MustPolicy("gcra 1000/10000h")

// programOf returns the program of a policy.
func programOf(p algo.Policy) *algo.Program {
	program, _ := p.(algo.Portable).Program()
	return &program
}

// oneRequest returns a batch with one request for a unit of each key.
func oneRequest(keys ...string) *driver.Batch {
	b := &driver.Batch{Version: storage.NewVersion(), Keys: keys, Requests: []driver.Request{{Times: 1}}}
	for i := range keys {
		b.Requests[0].Uses = append(b.Requests[0].Uses, driver.Use{Key: i, Cost: 1, Program: programOf(policy)})
	}
	return b
}

// requestEach returns a batch with one request for each key.
func requestEach(keys ...string) *driver.Batch {
	b := oneRequest(keys...)
	uses := b.Requests[0].Uses
	b.Requests = nil
	for i := range uses {
		b.Requests = append(b.Requests, driver.Request{Times: 1, Uses: uses[i : i+1]})
	}
	return b
}

// refund makes a request refund all units, which deletes the records.
func refund(r *driver.Request) {
	for i := range r.Uses {
		r.Uses[i].Op, r.Uses[i].Cost = driver.Refund, 1000
	}
}

// run runs batches with a long timeout.
func run(t *testing.T, s driver.Server, batches ...*driver.Batch) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	s.Run(ctx, batches...)
}

// runOK runs batches, which must succeed.
func runOK(t *testing.T, s driver.Server, batches ...*driver.Batch) {
	t.Helper()
	run(t, s, batches...)
	for _, b := range batches {
		require.NoError(t, b.Err)
		require.Nil(t, b.KeyErr)
	}
}

// usedOf returns how many units of a key are used.
func usedOf(t *testing.T, s storage.Store, key string) int {
	t.Helper()
	r, err := policy.Peek([]byte(stored(t, s, key)), time.Now(), 1)
	require.NoError(t, err)
	return int(policy.Limit().Count - r.Remaining)
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

// requireRefused checks that err reports that nothing was applied, and that a retry does not help.
func requireRefused(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.NotErrorIs(t, err, storage.ErrUnavailable)
	require.NotErrorIs(t, err, storage.ErrContended)
}

// requireUnknown checks that err reports that a write may have been applied.
func requireUnknown(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.NotErrorIs(t, err, storage.ErrNotApplied)
}
