package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

// waitForLocks waits until n sessions wait for a lock in a statement that contains text.
func waitForLocks(t *testing.T, p *pgxpool.Pool, text string, n int) {
	require.Eventually(t, func() bool {
		return n == selected[int](t, p, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position($1 in query) > 0", text)
	}, longTimeout, 2*time.Millisecond)
}

// swapLater swaps in a goroutine. wait waits for that, and returns the results.
func swapLater(s *postgres.Store, swaps []storage.Swap) (wait func() ([]storage.Record, bool, error)) {
	var swapping sync.WaitGroup
	var current []storage.Record
	var swapped bool
	var err error
	swapping.Go(func() { current, swapped, err = s.CompareAndSwap(context.Background(), swaps...) })
	return func() ([]storage.Record, bool, error) { swapping.Wait(); return current, swapped, err }
}

// spend takes units of a key like requestEach, in a transaction, and returns the version of the record.
func spend(t *testing.T, tx pgx.Tx, table, key string, units int64) storage.Version {
	policy, _ := twoAnHour()
	s := storeIn(t, tx, table)
	records, now, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	next := creating(key)
	next[0].Old = records[0].Version
	next[0].New.State, _, err = policy.Charge(nil, records[0].State, now, units)
	require.NoError(t, err)
	swap(t, s, next)
	return next[0].New.Version
}

// within calls do with a timeout, and again while it reports no contention: on a busy machine the reply may be too late.
func within(t *testing.T, timeout time.Duration, do func(context.Context) error) {
	t.Helper()
	var err error
	for try := 0; try < 10 && !errors.Is(err, storage.ErrContended); try++ {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		began := time.Now()
		err = do(ctx)
		cancel()
		require.Less(t, time.Since(began), timeout+slack)
	}
	requireKinds(t, err, storage.ErrContended, storage.ErrNotApplied)
}

// The first swap has inserted "a" and waits for "m". The second swap has locked "z", which did not
// exist when the first one began, and waits for "a". If the first swap then waited for "z", there
// would be a deadlock.
func TestSwapsThatCreateKeysDoNotDeadlock(t *testing.T) {
	p := newPool(t, "")
	s, table := newStore(t, p)
	holder := begin(t, p)
	swap(t, storeIn(t, holder, table), creating("m"))
	first := swapLater(s, creating("a", "m", "z"))
	waitForLocks(t, p, table, 1)
	z := creating("z")
	swap(t, s, z)
	second := swapLater(s, append(creating("a"), updating(z)...))
	waitForLocks(t, p, table, 2)
	require.NoError(t, holder.Rollback(t.Context()))
	for i, wait := range []func() ([]storage.Record, bool, error){first, second} {
		_, swapped, err := wait()
		require.NoError(t, err)
		require.Equal(t, i == 1, swapped)
	}
}

// Another transaction creates a key at the same time. That is a conflict, and nothing is written.
func TestKeyCreatedMeanwhileIsAConflict(t *testing.T) {
	for name, keys := range map[string][]string{"one key": {"x"}, "several keys": {"a", "x", "z"}} {
		for _, transactional := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", in a transaction: ", transactional), func(t *testing.T) {
				p := newPool(t, "")
				s, table := newStore(t, p)
				if transactional {
					s = storeIn(t, begin(t, p), table)
				}
				winner := begin(t, p)
				swap(t, storeIn(t, winner, table), creating("x"))
				wait := swapLater(s, creating(keys...))
				waitForLocks(t, p, table, 1)
				require.NoError(t, winner.Commit(t.Context()))
				current, swapped, err := wait()
				require.NoError(t, err)
				require.False(t, swapped)
				records, _, err := s.Load(t.Context(), keys...)
				require.NoError(t, err)
				require.Equal(t, records, current)
				require.Equal(t, []string{"x"}, existing(t, s, keys...))
				swap(t, s, creating("d")) // a transaction stays usable
			})
		}
	}
}

// The batch decides with the record that another transaction created. Its time is not before that record.
func TestRunWithAKeyThatIsCreatedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		batch *driver.Batch
		want  []int
	}{
		"one key":                   {requestEach("b"), []int{0}},
		"requests of one use":       {requestEach("c", "b", "a"), []int{1, 0, 1}},
		"a request of several uses": {oneRequest("c", "b", "a"), []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, "")
			s, table := newStore(t, p)
			other := begin(t, p)
			version := spend(t, other, table, "b", 2)
			var running sync.WaitGroup
			running.Go(func() { s.Run(context.Background(), c.batch) })
			waitForLocks(t, p, "sluice_decide", 1)
			_, before, err := s.Load(t.Context(), "any")
			require.NoError(t, err)
			require.NoError(t, other.Commit(t.Context()))
			running.Wait()
			b := c.batch
			require.NoError(t, errors.Join(append(b.KeyErr, b.Err)...))
			require.Equal(t, c.want, appliedOf(b))
			require.False(t, b.At.Before(before))
			for i, key := range b.Keys {
				require.Equal(t, map[bool]storage.Version{true: version, false: 0}[key == "b"], b.Found[i].Version)
			}
		})
	}
}

// The state of an expired record is in the table until it is written again.
func TestRunFindsNoExpiredRecord(t *testing.T) {
	p := newPool(t, "")
	s, table := newStore(t, p)
	run(t, s, requestEach("a", "b"), requestEach("a", "b"))
	exec(t, p, "UPDATE "+table+" SET expires_at = '2001-01-01' WHERE key = 'a'")
	b := requestEach("a", "b", "c")
	run(t, s, b)
	require.Equal(t, []int{1, 0, 1}, appliedOf(b))
	require.Equal(t, storage.Record{}, b.Found[0])
	require.Equal(t, storage.Record{}, b.Found[2])
}

// Other transactions create one key after another. So the next attempt may succeed.
func TestRunWithManyKeysThatAreCreatedMeanwhile(t *testing.T) {
	p := newPool(t, "")
	exec(t, p, "CREATE SEQUENCE created")
	schema, _ := newObstacle(t, p, newTrigger("BEFORE INSERT", "RAISE EXCEPTION 'sluice: created meanwhile: %', nextval('public.created')"))
	b := requestEach("a", "b")
	storeOn(t, p, postgres.Options{Schema: schema, Table: "t"}).Run(t.Context(), b)
	requireKinds(t, b.Err, storage.ErrContended, storage.ErrNotApplied)
}

// Only the requests that use the locked key fail. The statement_timeout of the session can be shorter than the lock timeout of a batch.
func TestRunWithALockedKey(t *testing.T) {
	for settings, lockTimeout := range map[string]time.Duration{"": time.Millisecond, "&statement_timeout=500": time.Minute} {
		p := newPool(t, settings)
		s, table := newStore(t, p)
		s.SetLockTimeout(lockTimeout)
		run(t, s, requestEach("a", "b", "c"))
		holder := begin(t, p)
		spend(t, holder, table, "b", 1)
		spend(t, holder, table, "y", 1)
		_, program := twoAnHour()
		request := func(keys ...int) (r driver.Request) {
			for _, key := range keys {
				r.Uses = append(r.Uses, driver.Use{Key: key, Cost: 1, Program: program})
			}
			return r
		}
		alone, each, shared := requestEach("b"), requestEach("c", "b", "a", "d"), requestEach("a", "b", "c", "d", "e")
		shared.Requests = []driver.Request{request(0, 1), request(2, 3), request(3), request(4), request(0)}
		all := requestEach("b", "f", "g")
		all.Requests = []driver.Request{request(0), request(1, 0), request(2, 0)}
		for _, c := range []struct {
			batch  *driver.Batch
			failed []bool // by key
			want   []int  // by request
		}{
			{each, []bool{false, true, false, false}, []int{1, 0, 1, 1}},
			{shared, []bool{true, true, false, false, false}, []int{0, 0, 1, 1, 0}},
			{alone, []bool{true}, []int{0}},
			{all, []bool{true, true, true}, []int{0, 0, 0}},
			{requestEach("b", "z", "y"), []bool{true, false, true}, []int{0, 1, 0}},
		} {
			s.Run(t.Context(), c.batch)
			require.NoError(t, c.batch.Err)
			require.Equal(t, c.want, appliedOf(c.batch))
			for i, failed := range c.failed {
				if failed {
					requireKinds(t, c.batch.KeyErr[i], storage.ErrContended, storage.ErrNotApplied)
				} else {
					require.NoError(t, c.batch.KeyErr[i])
				}
			}
		}
		require.NoError(t, holder.Rollback(t.Context()))
		run(t, s, all)
		require.Equal(t, []int{1, 0, 0}, appliedOf(all))
	}
}

// If the deadline is near, a batch waits for a lock for a third of the time. Then it sends its parts, unless it has only one.
func TestLockedKeyLeavesTimeForTheOthers(t *testing.T) {
	direct, table := newStore(t, newPool(t, ""))
	run(t, direct, requestEach("a"))
	exec(t, begin(t, newPool(t, "")), "SELECT FROM "+table+" FOR UPDATE")
	through, proxy := newCountedPool(t, "&default_query_exec_mode=exec")
	s := storeOn(t, through, postgres.Options{Table: table})
	s.SetLockTimeout(time.Minute)
	for _, keys := range [][]string{{"a"}, {"a", "b", "c"}} {
		const timeout = 3 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		proxy.Plan()
		began, b := time.Now(), requestEach(keys...)
		s.Run(ctx, b)
		require.NoError(t, b.Err)
		require.Less(t, time.Since(began), timeout/3+slack)
		requireKinds(t, b.KeyErr[0], storage.ErrContended, storage.ErrNotApplied)
		require.NoError(t, errors.Join(b.KeyErr[1:]...))
		require.Equal(t, map[int]int{1: 1, 3: 4}[len(keys)], proxy.Exchanges())
	}
}

// A wait for a lock ends before the deadline with an error of the server. So the outcome is known, and
// the connection stays open. A statement such as VACUUM FULL locks the whole table.
func TestWaitForALockEndsBeforeTheDeadline(t *testing.T) {
	p := newPool(t, "")
	s, table := newStore(t, p)
	swap(t, s, creating("a"))
	holder := begin(t, p)
	exec(t, holder, "SELECT FROM "+table+" FOR UPDATE")

	own := newPool(t, "&pool_max_conns=1&lock_timeout=1min")
	waiter := storeOn(t, own, postgres.Options{Table: table})
	within(t, time.Second, func(ctx context.Context) error {
		before := selected[int](t, own, "SELECT pg_backend_pid()")
		_, _, err := waiter.CompareAndSwap(ctx, creating("a")...)
		if errors.Is(err, storage.ErrContended) {
			require.Equal(t, before, selected[int](t, own, "SELECT pg_backend_pid()"))
		}
		return err
	})
	require.Equal(t, "1min", selected[string](t, own, "SHOW lock_timeout"))
	within(t, 1500*time.Millisecond, func(ctx context.Context) error {
		busy := begin(t, own)
		released := make(chan error, 1)
		time.AfterFunc(slack/2, func() { released <- busy.Rollback(context.Background()) }) // until then there is no connection
		_, _, err := waiter.CompareAndSwap(ctx, creating("a")...)
		require.NoError(t, <-released)
		return err
	})

	exec(t, holder, "LOCK TABLE "+table)
	for _, batch := range []func() *driver.Batch{
		func() *driver.Batch { return requestEach("a") },
		func() *driver.Batch { return requestEach("a", "b") },
		func() *driver.Batch { return oneRequest("a", "b") },
	} {
		within(t, time.Second, func(ctx context.Context) error {
			b := batch()
			s.Run(ctx, b)
			return errors.Join(append(b.KeyErr, b.Err)...)
		})
	}
}

// The limiter sends the swap again if there is time.
func TestContentionIsReportedAtOnce(t *testing.T) {
	p := newPool(t, "&lock_timeout=10")
	s, table := newStore(t, p)
	swap(t, s, creating("a"))
	exec(t, begin(t, p), "SELECT FROM "+table+" FOR UPDATE")
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	_, _, err := s.CompareAndSwap(ctx, creating("a")...)
	requireKinds(t, err, storage.ErrContended, storage.ErrNotApplied)
	require.NoError(t, ctx.Err())
}

func TestPurgeSkipsLockedRecords(t *testing.T) {
	p := newPool(t, "")
	s, table := newStore(t, p)
	keys := []string{"a", "b", "c", "d", "e"}
	expired := creating(keys...)
	for i := range expired[:4] {
		expired[i].TTL = 1
	}
	swap(t, s, expired)
	holder := begin(t, p)
	exec(t, holder, "SELECT FROM "+table+" WHERE key IN ('b', 'e') FOR UPDATE")
	for _, want := range []int{2, 1, 0} {
		n, err := s.Purge(t.Context(), 2)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.NoError(t, holder.Rollback(t.Context()))
	n, err := s.Purge(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"e"}, existing(t, s, keys...))
}

// The limiter finds out by such a swap whether a key is locked. The row of "b" is not committed yet.
func TestSwapThatDeletesNoRecordWaitsForTheLock(t *testing.T) {
	p := newPool(t, "")
	s, table := newStore(t, p)
	swap(t, s, creating("a"))
	before, _, err := s.Load(t.Context(), "a")
	require.NoError(t, err)
	holder := begin(t, p)
	exec(t, holder, "SELECT FROM "+table+" FOR UPDATE")
	swap(t, storeIn(t, holder, table), creating("b"))
	for _, key := range []string{"a", "b"} {
		within(t, 200*time.Millisecond, func(ctx context.Context) error {
			_, _, err := s.CompareAndSwap(ctx, storage.Swap{Key: key})
			return err
		})
	}
	require.NoError(t, holder.Rollback(t.Context()))
	for _, key := range []string{"a", "b", "c"} {
		_, _, err := s.CompareAndSwap(t.Context(), storage.Swap{Key: key})
		require.NoError(t, err)
	}
	after, _, err := s.Load(t.Context(), "a", "b", "c")
	require.NoError(t, err)
	require.Equal(t, append(before, storage.Record{}, storage.Record{}), after)
}

// requireEnded checks that an error of the server has this code, and that a retry in the same
// transaction does not help.
func requireEnded(t *testing.T, err error, code string) {
	t.Helper()
	require.ErrorContains(t, err, "(SQLSTATE "+code+")")
	requireKinds(t, err, storage.ErrNotApplied)
}

// A lock timeout would apply to all later statements of the transaction.
func TestTransactionKeepsItsLockTimeout(t *testing.T) {
	p := newPool(t, "")
	_, table := newStore(t, p)
	tx := begin(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	_, swapped, err := storeIn(t, tx, table).CompareAndSwap(ctx, creating("a", "b")...)
	require.NoError(t, err)
	require.True(t, swapped)
	require.Equal(t, "0", selected[string](t, tx, "SHOW lock_timeout"))
}

// At a higher isolation level, a transaction cannot write rows that others wrote after its first statement.
func TestSerializationFailureEndsTheTransaction(t *testing.T) {
	p := newPool(t, "")
	s, table := newStore(t, p)
	first := creating("a")
	swap(t, s, first)
	tx := begin(t, newPool(t, "&default_transaction_isolation=serializable"))
	late := storeIn(t, tx, table)
	existing(t, late, "a")
	swap(t, s, updating(first))
	_, _, err := late.CompareAndSwap(t.Context(), updating(first)...)
	requireEnded(t, err, "40001")
}

// After the deadline, the store must not use the transaction any more. The race detector would report
// it.
func TestTransactionIsNotUsedAfterTheDeadline(t *testing.T) {
	p := newPool(t, "")
	_, table := newStore(t, p)
	exec(t, begin(t, p), "LOCK TABLE "+table)
	tx := begin(t, p)
	limiter, err := sluice.New(storeIn(t, tx, table), "gcra 1/h")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // long enough to reach the lock
	defer cancel()
	_, err = limiter.Allow(ctx, "a") // waits for the lock
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, storage.ErrNotApplied)
	for range 1000 {
		_, err = tx.Exec(context.Background(), "SELECT 1")
		require.Error(t, err)
	}
}

// As with swaps, the second batch has locked "z", which did not exist when the first one began.
func TestBatchesThatCreateKeysDoNotDeadlock(t *testing.T) {
	p := newPool(t, "")
	s, table := newStore(t, p)
	holder := begin(t, p)
	swap(t, storeIn(t, holder, table), creating("m"))
	var running sync.WaitGroup
	first, second := requestEach("a", "m", "z"), requestEach("a", "z")
	running.Go(func() { s.Run(context.Background(), first) })
	waitForLocks(t, p, "sluice_decide", 1)
	other := begin(t, p)
	spend(t, other, table, "z", 1)
	require.NoError(t, other.Commit(t.Context()))
	running.Go(func() { s.Run(context.Background(), second) })
	waitForLocks(t, p, "sluice_decide", 2)
	require.NoError(t, holder.Rollback(t.Context()))
	running.Wait()
	for _, b := range []*driver.Batch{first, second} {
		require.NoError(t, errors.Join(append(b.KeyErr, b.Err)...))
	}
}
