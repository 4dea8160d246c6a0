package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
)

// TestHealthOfAStoreThatOnlyReads: a replica or a full disk accepts no writes.
func TestHealthOfAStoreThatOnlyReads(t *testing.T) {
	redis := servers.Redis(t)
	w := startTestServer(t, oneByIP, on("redis://"+redis.Addr()))
	require.Equal(t, http.StatusOK, fetch(t, w.apiURL("/readyz")).StatusCode)
	_, err := redis.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return fetch(t, w.apiURL("/readyz")).StatusCode == http.StatusServiceUnavailable }, testTimeout, 10*time.Millisecond)
	require.Contains(t, w.logged.String(), "NOREPLICAS")

	_, err = newTestServer(t, oneByIP, on("redis://"+redis.Addr()))
	require.ErrorContains(t, err, "--store redis://"+redis.Addr()+": the store can be read but not written: ")
}

func TestHealthOfEachStore(t *testing.T) {
	for _, store := range []string{"memory:", "sqlite:" + filepath.Join(t.TempDir(), "limits.db"), "redis://" + servers.Redis(t).Addr(), servers.Postgres(t).DSN()} {
		w := startTestServer(t, oneByIP, on(store))
		require.Equal(t, http.StatusOK, fetch(t, w.apiURL("/readyz")).StatusCode, store)
		for range 3 {
			require.NoError(t, w.writeProbe(t.Context()), store)
		}
	}
}

// stuck is a store that answers when it is let go, whatever its context says.
type stuck struct {
	storage.Store
	answer chan error
	asked  atomic.Int64
}

func (s *stuck) CompareAndSwap(context.Context, ...storage.Swap) ([]storage.Record, bool, error) {
	s.asked.Add(1)
	err := <-s.answer
	return nil, err == nil, err
}

// watched is a server on a store, of which no more runs than its watch.
func watched(t *testing.T, store storage.Store, policy compose.FailurePolicy) *Server {
	s := &Server{log: slog.New(slog.DiscardHandler), sampled: sampledTo(io.Discard), store: &opened{Store: store}, options: Options{OnFailure: policy}}
	s.health.Store(&storeHealth{at: time.Now()})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go every(ctx, probeEvery, s.checkStore)
	return s
}

// readiness is the status of /readyz and what it says of the store. It must be told at
// once: the bubble's time stands still meanwhile.
func (s *Server) readiness(t *testing.T) (status int, store string) {
	t.Helper()
	began := time.Now()
	for path, h := range map[string]http.HandlerFunc{"/livez": live, "/readyz": s.ready} {
		w := httptest.NewRecorder()
		h(w, httptest.NewRequest(http.MethodGet, path, nil))
		if path == "/livez" {
			require.Equal(t, http.StatusOK, w.Code, "whatever the store does")
			continue
		}
		var told struct{ Store string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &told))
		status, store = w.Code, told.Store
	}
	require.Zero(t, time.Since(began))
	return status, store
}

func text(status int, store string) string { return fmt.Sprint(status, " ", store) }

// TestHealthDoesNotWaitForTheStore: the store hangs, fails and recovers.
func TestHealthDoesNotWaitForTheStore(t *testing.T) {
	for policy, down := range map[compose.FailurePolicy]int{compose.FailClosed: 503, compose.FailOpen: 200, compose.FailLocal: 200} {
		synctest.Test(t, func(t *testing.T) {
			store := &stuck{answer: make(chan error)}
			defer close(store.answer)
			s := watched(t, store, policy)
			require.Equal(t, "200 ok", text(s.readiness(t)))
			time.Sleep(probeStale - time.Millisecond)
			require.Equal(t, "200 ok", text(s.readiness(t)))
			time.Sleep(2 * time.Millisecond)
			status, told := s.readiness(t)
			require.Equal(t, down, status, "it has hung for 5 s")
			require.EqualValues(t, 1, store.asked.Load(), "one probe at a time")
			if status == 200 {
				require.Equal(t, "failed", told)
			}

			store.answer <- errors.New("read-only")
			synctest.Wait()
			status, _ = s.readiness(t)
			require.Equal(t, down, status)
			store.answer <- nil
			synctest.Wait()
			require.Equal(t, "200 ok", text(s.readiness(t)))
		})
	}
}
