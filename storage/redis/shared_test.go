package redis_test

import (
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

var shared servers.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m, servers.RedisPrograms)) }

// long is what no answer takes.
const long = 60 * time.Second

// slack is by how much a call on a busy machine may end later than its deadline.
const slack = time.Second

func newClient(t *testing.T, addr string) *goredis.Client {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })
	return client
}

func do(t *testing.T, server *servers.RedisServer, command ...string) string {
	t.Helper()
	reply, err := server.Do(command...)
	require.NoError(t, err)
	return reply
}

// creating is a swap that creates a record.
func creating(key, state string) storage.Swap {
	return storage.Swap{Key: key, New: storage.Record{Version: storage.NewVersion(), State: []byte(state)}}
}

// create requires that a swap creates all the records.
func create(t *testing.T, s storage.Store, swaps ...storage.Swap) {
	t.Helper()
	_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
	require.NoError(t, err)
	require.True(t, swapped)
}

// know has the server know the scripts.
func know(t *testing.T, s storage.Store) {
	t.Helper()
	for _, keys := range scripts {
		_, _, err := s.CompareAndSwap(t.Context(), group(keys, driver.Key("warm", "a"))...)
		require.NoError(t, err)
	}
}

// stored is the state under a key.
func stored(t *testing.T, s storage.Store, key string) string {
	t.Helper()
	records, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	return string(records[0].State)
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, long, time.Millisecond)
}
