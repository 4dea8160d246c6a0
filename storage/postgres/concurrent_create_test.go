package postgres_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

// newStore returns a store on a new table, and the name of the table.
func newStore(t *testing.T, p *pgxpool.Pool) (*postgres.Store, string) {
	table := fmt.Sprintf("table_%d", tables.Add(1))
	return open(t, p, postgres.Options{Table: table}), table
}

func creating(keys ...string) []storage.Swap {
	swaps := make([]storage.Swap, len(keys))
	for i, key := range keys {
		swaps[i] = storage.Swap{Key: key, New: storage.Record{Version: storage.NewVersion(), State: []byte("new")}}
	}
	return swaps
}

func begin(t *testing.T, p *pgxpool.Pool) pgx.Tx {
	tx, err := p.Begin(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// storeIn returns a store on a transaction.
func storeIn(t *testing.T, tx pgx.Tx, table string) *postgres.Store {
	s, err := postgres.New(tx, postgres.Options{Table: table})
	require.NoError(t, err)
	return s
}

// waitForLocks waits until n sessions wait for a lock in a statement that contains text.
func waitForLocks(t *testing.T, p *pgxpool.Pool, text string, n int) {
	require.Eventually(t, func() bool {
		var waiting int
		err := p.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND position($1 in query) > 0`, text).Scan(&waiting)
		return err == nil && waiting == n
	}, 20*time.Second, 2*time.Millisecond)
}

type swapResult struct {
	current []storage.Record
	swapped bool
	err     error
}

// swapLater swaps in a goroutine.
func swapLater(s *postgres.Store, swaps []storage.Swap) <-chan swapResult {
	c := make(chan swapResult, 1)
	go func() {
		current, swapped, err := s.CompareAndSwap(context.Background(), swaps...)
		c <- swapResult{current, swapped, err}
	}()
	return c
}

// The first swap has inserted "a" and waits for "m". The second swap has locked "z", which did not
// exist when the first one began, and waits for "a". If the first swap then waited for "z", there
// would be a deadlock.
func TestSwapsThatCreateKeysDoNotDeadlock(t *testing.T) {
	ctx, p := context.Background(), newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	holder := begin(t, p)
	_, swapped, err := storeIn(t, holder, table).CompareAndSwap(ctx, creating("m")...)
	require.NoError(t, err)
	require.True(t, swapped)

	first := swapLater(s, creating("a", "m", "z"))
	waitForLocks(t, p, table, 1)
	z := creating("z")
	_, swapped, err = s.CompareAndSwap(ctx, z...)
	require.NoError(t, err)
	require.True(t, swapped)
	another := creating("a", "z")
	another[1].Old = z[0].New.Version
	second := swapLater(s, another)
	waitForLocks(t, p, table, 2)
	require.NoError(t, holder.Rollback(ctx))

	got := <-first
	require.NoError(t, got.err)
	require.False(t, got.swapped)
	got = <-second
	require.NoError(t, got.err)
	require.True(t, got.swapped)
}

// exist reports for each record whether it exists.
func exist(records []storage.Record) []bool {
	all := make([]bool, len(records))
	for i := range records {
		all[i] = records[i].Version != 0
	}
	return all
}

// increment adds 1 to the number under each key.
func increment(_ time.Time, items []driver.Item) error {
	for i := range items {
		n := uint64(0)
		if items[i].Found.Version != 0 {
			n = binary.BigEndian.Uint64(items[i].Found.State)
		}
		items[i].Next = driver.Change{Verb: driver.Put, State: binary.BigEndian.AppendUint64(nil, n+1), TTL: time.Hour}
	}
	return nil
}

// numbers returns the numbers under keys of package enginetest.
func numbers(t *testing.T, s *postgres.Store, keys ...string) []uint64 {
	records, _, err := s.Load(context.Background(), keys...)
	require.NoError(t, err)
	all := make([]uint64, len(keys))
	for i, r := range records {
		if r.Version != 0 {
			all[i] = binary.BigEndian.Uint64(r.State)
		}
	}
	return all
}
