package serve

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// expired is a store of which n records have expired.
type expired struct {
	n       int
	batches []int
	err     error
}

func (e *expired) Purge(ctx context.Context, most int) (int, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return 0, errors.New("without a deadline")
	}
	removed := min(e.n, most)
	e.n -= removed
	e.batches = append(e.batches, removed)
	return removed, e.err
}

func TestPurge(t *testing.T) {
	e := &expired{n: 2*purgeBatch + 5}
	w := startTestServer(t, oneByIP)
	w.purge(t.Context(), e)
	require.Contains(t, w.logged.String(), fmt.Sprintf("removed=%d", 2*purgeBatch+5))
	require.Equal(t, []int{purgeBatch, purgeBatch, 5}, e.batches)
}

func TestFailedPurgesAreLoggedAndCounted(t *testing.T) {
	w := startTestServer(t, oneByIP)
	e := &expired{n: 7, err: errors.New("disk full")}
	w.purge(t.Context(), e)
	require.Zero(t, e.n)
	require.Contains(t, w.logged.String(), "disk full")
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_purges_total{outcome="failed"} 1`)

	ended, end := context.WithCancel(t.Context())
	end()
	w.purge(ended, e)
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_purges_total{outcome="failed"} 1`, "the server stops")
}

// The server purges the stores that need it by itself, without any request.
func TestTheServerPurgesItsStore(t *testing.T) {
	file, dsn := filepath.Join(t.TempDir(), "limits.db"), servers.Postgres(t).DSN()
	for address, expired := range map[string]func() (rows int){
		"sqlite:" + file: func() (rows int) {
			db, err := sql.Open("sqlite3", "file:"+file)
			assert.NoError(t, err)
			defer db.Close()
			assert.NoError(t, db.QueryRow("SELECT count(*) FROM sluice_states WHERE expires_at <= ?", time.Now().UnixNano()).Scan(&rows))
			return rows
		},
		dsn: func() (rows int) {
			db, err := pgx.Connect(t.Context(), dsn)
			if !assert.NoError(t, err) {
				return -1
			}
			defer db.Close(t.Context())
			assert.NoError(t, db.QueryRow(t.Context(), "SELECT count(*) FROM sluice_states WHERE expires_at <= clock_timestamp()").Scan(&rows))
			return rows
		},
	} {
		w, err := newTestServer(t, oneByIP, on(address))
		require.NoError(t, err)
		defer w.Close()
		for i := range 3 {
			swap := storage.Swap{Key: driver.Key("", fmt.Sprint(i)), New: storage.Record{Version: storage.NewVersion()}, TTL: 1}
			_, swapped, err := w.store.CompareAndSwap(t.Context(), swap)
			require.NoError(t, err)
			require.True(t, swapped)
		}
		require.Eventually(t, func() bool { return expired() == 3 }, testTimeout, time.Millisecond, address)
		w.purgeEvery = 10 * time.Millisecond
		go func() { w.done <- w.Serve(context.Background()) }()
		require.Eventually(t, func() bool { return expired() == 0 }, testTimeout, 10*time.Millisecond, address)
		w.Close()
		require.NoError(t, w.ended())
	}
}
