package serve

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
)

// TestHealthOfAStoreThatOnlyReads is that of a replica or a full disk.
func TestHealthOfAStoreThatOnlyReads(t *testing.T) {
	redis := servers.Redis(t)
	w := started(t, oneByIP, on("redis://"+redis.Addr()))
	require.Equal(t, http.StatusOK, fetch(t, w.apiURL("/healthz")).StatusCode)
	_, err := redis.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return fetch(t, w.apiURL("/healthz")).StatusCode == http.StatusServiceUnavailable }, patience, 10*time.Millisecond)
	require.Contains(t, w.logged.String(), "NOREPLICAS")

	_, err = opening(t, oneByIP, on("redis://"+redis.Addr()))
	require.ErrorContains(t, err, "--store redis://"+redis.Addr()+": it can be read and not written: ")
}

func TestHealthOfEachStore(t *testing.T) {
	for _, store := range []string{"memory:", "sqlite:" + filepath.Join(t.TempDir(), "limits.db"), "redis://" + servers.Redis(t).Addr(), servers.Postgres(t).DSN()} {
		w := started(t, oneByIP, on(store))
		require.Equal(t, http.StatusOK, fetch(t, w.apiURL("/healthz")).StatusCode, store)
		for range 3 {
			require.NoError(t, w.probe.write(t.Context()), store)
		}
	}
}

// counting is a store whose writes take a second.
type counting struct {
	storage.Store
	writes atomic.Int64
	err    error
}

func (c *counting) CompareAndSwap(ctx context.Context, _ ...storage.Swap) ([]storage.Record, bool, error) {
	c.writes.Add(1)
	select {
	case <-time.After(time.Second):
		return nil, c.err == nil, c.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

func TestProbesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(counting)
		p := newProbe(store, "")
		askAtOnce := func() {
			var asking sync.WaitGroup
			for range 100 {
				asking.Go(func() { require.NoError(t, p.ask()) })
			}
			asking.Wait()
		}
		askAtOnce()
		time.Sleep(probeAge - 1)
		askAtOnce()
		require.EqualValues(t, 1, store.writes.Load())
		time.Sleep(1)
		store.err = errors.New("read-only")
		require.Error(t, p.ask())
		require.Error(t, p.ask())
		require.EqualValues(t, 2, store.writes.Load())
	})
}

// changing is a store in which somebody else has written first, some times.
type changing struct {
	storage.Store
	times int
	there storage.Version
}

func (c *changing) CompareAndSwap(_ context.Context, swaps ...storage.Swap) ([]storage.Record, bool, error) {
	if c.times > 0 {
		c.times--
		c.there = storage.NewVersion()
	}
	if swaps[0].Old != c.there {
		return []storage.Record{{Version: c.there}}, false, nil
	}
	c.there = swaps[0].New.Version
	return nil, true, nil
}

func TestProbeGoesOnFromWhatIsThere(t *testing.T) {
	p := newProbe(&changing{times: 2}, "")
	require.NoError(t, p.write(t.Context()))
	require.NoError(t, p.write(t.Context()))
	require.ErrorIs(t, newProbe(&changing{times: 3}, "").write(t.Context()), errProbe)
}
