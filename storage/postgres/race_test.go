package postgres_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/internal/engine/enginetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

// fresh is a store on a table of its own, and the table's name.
func fresh(t *testing.T, p *pgxpool.Pool) (*postgres.Store, string) {
	table := fmt.Sprintf("fresh_%d", tables.Add(1))
	return open(t, p, postgres.Options{Table: table}), table
}

func creating(keys ...string) []storage.Swap {
	swaps := make([]storage.Swap, len(keys))
	for i, key := range keys {
		swaps[i] = storage.Swap{Key: key, New: storage.Record{Version: storage.NewVersion(), State: []byte("new")}}
	}
	return swaps
}

func transaction(t *testing.T, p *pgxpool.Pool) pgx.Tx {
	tx, err := p.Begin(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func inside(t *testing.T, tx pgx.Tx, table string) *postgres.Store {
	s, err := postgres.New(tx, postgres.Options{Table: table})
	require.NoError(t, err)
	return s
}

// waiting returns when n sessions wait for a lock in statements on the table.
func waiting(t *testing.T, p *pgxpool.Pool, table string, n int) {
	require.Eventually(t, func() bool {
		var seen int
		err := p.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND position($1 in query) > 0`, table).Scan(&seen)
		return err == nil && seen == n
	}, 20*time.Second, 2*time.Millisecond)
}

type answer struct {
	current []storage.Record
	swapped bool
	err     error
}

func later(s *postgres.Store, swaps []storage.Swap) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		current, swapped, err := s.CompareAndSwap(context.Background(), swaps...)
		c <- answer{current, swapped, err}
	}()
	return c
}

// One has inserted "a" and waits for "m"; another has seen "z", which the first
// could not see yet, and waits for "a". Were the first to wait for "z" then,
// both would until Postgres finds the deadlock.
func TestFirstUsesDoNotDeadlock(t *testing.T) {
	ctx, p := context.Background(), pool(t, shared.Postgres(t).DSN())
	s, table := fresh(t, p)
	holder := transaction(t, p)
	_, swapped, err := inside(t, holder, table).CompareAndSwap(ctx, creating("m")...)
	require.NoError(t, err)
	require.True(t, swapped)

	first := later(s, creating("a", "m", "z"))
	waiting(t, p, table, 1)
	z := creating("z")
	_, swapped, err = s.CompareAndSwap(ctx, z...)
	require.NoError(t, err)
	require.True(t, swapped)
	another := creating("a", "z")
	another[1].Old = z[0].New.Version
	second := later(s, another)
	waiting(t, p, table, 2)
	require.NoError(t, holder.Rollback(ctx))

	got := <-first
	require.NoError(t, got.err)
	require.False(t, got.swapped)
	got = <-second
	require.NoError(t, got.err)
	require.True(t, got.swapped)
}

// The key of a lost race is told as a conflict, and the transaction of the
// loser goes on.
func TestRaceInsideATransaction(t *testing.T) {
	for name, keys := range map[string][]string{"one key": {"b"}, "several keys": {"a", "b", "c"}} {
		t.Run(name, func(t *testing.T) {
			ctx, p := context.Background(), pool(t, shared.Postgres(t).DSN())
			_, table := fresh(t, p)
			winner, loser := transaction(t, p), transaction(t, p)
			_, swapped, err := inside(t, winner, table).CompareAndSwap(ctx, creating("b")...)
			require.NoError(t, err)
			require.True(t, swapped)

			lost := later(inside(t, loser, table), creating(keys...))
			waiting(t, p, table, 1)
			require.NoError(t, winner.Commit(ctx))
			got := <-lost
			require.NoError(t, got.err)
			require.False(t, got.swapped)
			require.Len(t, got.current, len(keys))

			_, swapped, err = inside(t, loser, table).CompareAndSwap(ctx, creating("d")...)
			require.NoError(t, err)
			require.True(t, swapped)
			require.NoError(t, loser.Commit(ctx))
			records, err := inside(t, transaction(t, p), table).Load(ctx, "a", "b", "c", "d")
			require.NoError(t, err)
			require.Equal(t, []bool{false, true, false, true}, there(records))
		})
	}
}

func there(records []storage.Record) []bool {
	all := make([]bool, len(records))
	for i := range records {
		all[i] = records[i].Version != 0
	}
	return all
}

// add is a decision that counts in every key.
func add(_ time.Time, found [][]byte, next []driver.Change) error {
	for i := range found {
		n := uint64(0)
		if found[i] != nil {
			n = binary.BigEndian.Uint64(found[i])
		}
		next[i] = driver.Change{Verb: driver.Put, State: binary.BigEndian.AppendUint64(nil, n+1), TTL: time.Hour}
	}
	return nil
}

func sums(t *testing.T, s *postgres.Store, keys ...string) []uint64 {
	records, err := s.Load(context.Background(), keys...)
	require.NoError(t, err)
	all := make([]uint64, len(keys))
	for i, r := range records {
		if r.Version != 0 {
			all[i] = binary.BigEndian.Uint64(r.State)
		}
	}
	return all
}

// Everybody's first use comes at the same moment, in groups that overlap.
func TestFirstUseOfManyAtOnce(t *testing.T) {
	const rounds, writers = 4, 12
	p := pool(t, shared.Postgres(t).DSN()+"&pool_max_conns=12")
	s, _ := fresh(t, p)
	for round := range rounds {
		var keys []string
		for i := range 4 {
			keys = append(keys, fmt.Sprint(round, "/", i))
		}
		errs, start := make(chan error, writers), make(chan struct{})
		var group sync.WaitGroup
		want := make([]uint64, len(keys))
		for w := range writers {
			own := []string{keys[w%4], keys[(w+1)%4], keys[(w+3)%4]}
			want[w%4], want[(w+1)%4], want[(w+3)%4] = want[w%4]+1, want[(w+1)%4]+1, want[(w+3)%4]+1
			e := engine.New(s, engine.Options{Timeout: 20 * time.Second, DenialCacheTTL: -1})
			group.Go(func() {
				<-start
				_, err := enginetest.Do(context.Background(), e, own, add)
				errs <- err
			})
		}
		close(start)
		group.Wait()
		close(errs)
		var all error
		for err := range errs {
			all = errors.Join(all, err)
		}
		require.NoError(t, all)
		require.Equal(t, want, sums(t, s, keys...))
	}
}
