package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

// watchedDB calls begin before each statement of Purge.
type watchedDB struct {
	*pgx.Conn
	begin func()
}

func (w *watchedDB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if strings.Contains(sql, "DELETE") {
		w.begin()
	}
	return w.Conn.Query(ctx, sql, args...)
}

// If a due record has a later expiry, Purge sets its purge_at to that expiry, in batches of a limited
// size.
func TestPurgeReschedulesRecordsWithALaterExpiry(t *testing.T) {
	const batch, records = postgres.PurgeBatch, 2*postgres.PurgeBatch + 50
	p := newPool(t, "")
	s, table := newStore(t, p)
	swap(t, s, creatingFor(records, time.Hour))
	var rescheduled []int
	conn, err := p.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	watching := storeOn(t, &watchedDB{conn.Conn(), func() {
		rescheduled = append(rescheduled, selected[int](t, p, "SELECT count(*) FROM "+table+" WHERE purge_at = expires_at"))
	}}, postgres.Options{Table: table})
	for _, c := range []struct {
		columns     string // which pass
		max, want   int
		rescheduled []int // before each statement
	}{
		{"", 1, 0, []int{records}}, // nothing is due yet
		{"purge_at", 1, 0, []int{0, batch, 2 * batch}},
		{"", 1, 0, []int{records}},
		{"purge_at expires_at", batch + 1, batch + 1, []int{records, records - batch}},
		{"", records, batch + 49, []int{batch + 49, 49}},
	} {
		for column := range strings.FieldsSeq(c.columns) {
			exec(t, p, fmt.Sprintf("UPDATE %s SET %[2]s = %[2]s - interval '2 hours'", table, column))
		}
		rescheduled = nil
		removed, err := watching.Purge(t.Context(), c.max)
		require.NoError(t, err)
		require.Equal(t, c.want, removed)
		require.Equal(t, c.rescheduled, rescheduled)
	}
	require.Zero(t, selected[int](t, p, "SELECT count(*) FROM "+table))
}

// A purge ends even if records expire all the time.
func TestPurgeIgnoresRecordsThatExpireMeanwhile(t *testing.T) {
	p := newPool(t, "&pool_max_conns=2")
	s, table := newStore(t, p)
	conn, err := p.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	statements := 0
	expire := func() {
		statements++
		exec(t, p, "INSERT INTO "+table+" SELECT convert_to($1::int || '/' || i, 'UTF8'), 1, '', clock_timestamp(), clock_timestamp() FROM generate_series(1, $2::int) i",
			statements, postgres.PurgeBatch)
	}
	watching := storeOn(t, &watchedDB{conn.Conn(), expire}, postgres.Options{Table: table})
	removed, err := watching.Purge(t.Context(), 4*postgres.PurgeBatch)
	require.NoError(t, err)
	require.Equal(t, postgres.PurgeBatch, removed)
	removed, err = s.Purge(t.Context(), 4*postgres.PurgeBatch)
	require.NoError(t, err)
	require.Equal(t, postgres.PurgeBatch, removed)
}

// The records are always due and never expired. Purge must not remove one or restore an old version.
func TestPurgeDoesNotHarmConcurrentWrites(t *testing.T) {
	const writers, each, times = 4, 5, 30
	p := newPool(t, "&pool_max_conns=8")
	s, table := newStore(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	purged := make(chan struct{})
	go func() {
		defer close(purged)
		for ctx.Err() == nil {
			_, err := p.Exec(t.Context(), "UPDATE "+table+" SET purge_at = '2001-01-01' WHERE key IN (SELECT key FROM "+table+" FOR UPDATE SKIP LOCKED)")
			assert.NoError(t, err)
			removed, err := s.Purge(t.Context(), 1000)
			assert.NoError(t, err)
			assert.Zero(t, removed)
		}
	}()
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				swap := creating(fmt.Sprint(w, "/", i))
				for n := 0; n < times && !t.Failed(); {
					swap[0].TTL = time.Hour
					if _, swapped, err := s.CompareAndSwap(t.Context(), swap...); swapped {
						swap, n = updating(swap), n+1
					} else {
						assert.ErrorIs(t, err, storage.ErrContended)
					}
				}
			}
		})
	}
	group.Wait()
	cancel()
	<-purged
	require.Equal(t, writers*each, selected[int](t, p, "SELECT count(*) FROM "+table))
}
