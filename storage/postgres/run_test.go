package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// law returns the law of storagetest with this name.
func law(t *testing.T, name string) storagetest.Law {
	for _, l := range storagetest.Laws() {
		if l.Name == name {
			return l
		}
	}
	t.Fatal("there is no law ", name)
	return storagetest.Law{}
}

const anyBatch = "any batch is decided as in Go"

func TestRunDoesNotDependOnSessionSettings(t *testing.T) {
	const settings = "&standard_conforming_strings=off&bytea_output=escape&search_path=public&TimeZone=Asia/Kolkata&IntervalStyle=iso_8601" +
		"&default_transaction_isolation=serializable&plan_cache_mode=force_custom_plan"
	h, _ := newPair(t, newPool(t, shared.Postgres(t).DSN()+settings))
	require.NoError(t, law(t, anyBatch).Check(h))
}

func TestRunInATransactionObeysTheLaws(t *testing.T) {
	p := newPool(t, shared.Postgres(t).DSN())
	for _, name := range []string{anyBatch, "a batch may have many keys"} {
		h, _ := newPair(t, p)
		_, table := newStore(t, p)
		h.Store = storeIn(t, begin(t, p), table)
		assert.NoError(t, law(t, name).Check(h))
	}
}

func TestEachFaultInAStatementBreaksALaw(t *testing.T) {
	const margin, later = "the margin is added to TTLs", "a batch with a later time keeps its records longer"
	p := newPool(t, shared.Postgres(t).DSN())
	for _, fault := range []struct {
		one           bool // in the function for one request
		law, from, to string
	}{
		{false, anyBatch, "WHEN old_version = batch OR op = 3", "WHEN op = 3"},
		{false, anyBatch, "cost, times, args) END AS reply", "cost, 1, args) END AS reply"},
		{false, anyBatch, "always_write OR next <> old_state", "next <> old_state"},
		{false, anyBatch, "args[first:last]", "args[1:4]"},
		{false, anyBatch, "version = excluded.version, ", ""},
		{false, anyBatch, "batch, next, expires_at, expires_at FROM _sluice_write WHERE NOT absent", "batch, old_state, expires_at, expires_at FROM _sluice_write WHERE NOT absent"},
		{false, anyBatch, "coalesce(now, ", "coalesce(NULL, "},
		{false, anyBatch, "CASE place WHEN 1 THEN counts END", "NULL::bigint[]"},
		{false, anyBatch, "coalesce(old_version, 0)", "0"},
		{false, "a batch sets TTLs", "ttl + margin AS ttl_us", "0 AS ttl_us"},
		{false, margin, " + margin", ""},
		{false, later, "greatest(clock, ", "least(clock, "},
		{true, anyBatch, "old_version = batch OR ", ""},
		{true, anyBatch, "reply := int8send(1)", "reply := int8send(0)"},
		{true, margin, "(ttl + margin) *", "ttl *"},
		{true, later, "greatest(clock, ", "least(clock, "},
		{true, "a batch is decided at its time", "coalesce(now, ", "coalesce(NULL, "},
		{true, anyBatch, "version = batch, ", ""},
		{true, anyBatch, "times, args)", "1, args)"},
		{true, anyBatch, "old_version IS NULL OR next", "true OR next"},
	} {
		h, _ := newPair(t, p)
		all := h.Store.(*postgres.Store).CreateRun()
		text := all[0]
		if !fault.one {
			text = strings.Join(all[1:], "")
		}
		require.Contains(t, text, fault.from)
		_, err := p.Exec(t.Context(), strings.ReplaceAll(text, fault.from, fault.to))
		require.NoError(t, err)
		assert.Error(t, law(t, fault.law).Check(h), "%q instead of %q", fault.to, fault.from)
	}
}

// newProgram returns the program of a GCRA with a limit for each hour.
func newProgram(t *testing.T, count int64) *algo.Program {
	policy, err := gcra.New(gcra.Options{Limit: algo.Per(count, time.Hour)})
	require.NoError(t, err)
	p, ok := policy.Program()
	require.True(t, ok)
	return &p
}

// requestEach returns a batch with a request for a unit of each key. The limit of a key is 2.
func requestEach(t *testing.T, keys ...string) *driver.Batch {
	b := &driver.Batch{Version: storage.NewVersion(), Keys: keys, Programs: []*algo.Program{newProgram(t, 2)}}
	for i := range keys {
		b.Requests = append(b.Requests, driver.Request{Times: 1, Uses: []driver.Use{{Key: i, Cost: 1}}})
	}
	return b
}

// oneRequest returns a batch with one request for a unit of each key.
func oneRequest(t *testing.T, keys ...string) *driver.Batch {
	b := requestEach(t, keys...)
	all := driver.Request{Times: 1}
	for _, r := range b.Requests {
		all.Uses = append(all.Uses, r.Uses...)
	}
	b.Requests = []driver.Request{all}
	return b
}

// runLater runs a batch in a goroutine.
func runLater(s *postgres.Store, b *driver.Batch) <-chan *driver.Batch {
	done := make(chan *driver.Batch, 1)
	go func() {
		s.Run(context.Background(), b)
		done <- b
	}()
	return done
}

func appliedOf(b *driver.Batch) (all []int) {
	for _, r := range b.Requests {
		all = append(all, r.Applied)
	}
	return all
}

// The batch decides with the record that another transaction created, at the time of the batch.
func TestRunWithAKeyThatIsCreatedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		batch func(*testing.T, ...string) *driver.Batch
		want  []int
	}{"requests of one use": {requestEach, []int{1, 0, 1}}, "a request of several uses": {oneRequest, []int{0}}} {
		for _, transactional := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", in a transaction: ", transactional), func(t *testing.T) {
				ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
				s, table := newStore(t, p)
				s.SetLockTimeout(time.Minute)
				other := begin(t, p)
				first := requestEach(t, "b")
				first.Requests[0].Times = 2
				storeIn(t, other, table).Run(ctx, first)
				require.NoError(t, first.Err)
				require.Equal(t, []int{2}, appliedOf(first))

				runner := s
				if transactional {
					runner = storeIn(t, begin(t, p), table)
				}
				done := runLater(runner, c.batch(t, "c", "b", "a"))
				waitForLocks(t, p, "sluice_s", 1)
				require.NoError(t, other.Commit(ctx))
				b := <-done
				require.NoError(t, b.Err)
				require.Nil(t, b.KeyErr)
				require.Equal(t, c.want, appliedOf(b))
				require.Equal(t, first.Version, b.Found[1].Version)
				require.Zero(t, b.Found[0])
			})
		}
	}
}

// The function for one request needs no further round trip.
func TestRunOfOneRequestWithAKeyThatIsCreatedMeanwhile(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	other := begin(t, p)
	first := requestEach(t, "a")
	storeIn(t, other, table).Run(ctx, first)
	done := runLater(s, requestEach(t, "a"))
	waitForLocks(t, p, "sluice_one", 1)
	require.NoError(t, other.Commit(ctx))
	b := <-done
	require.NoError(t, b.Err)
	require.Equal(t, []int{1}, appliedOf(b))
	require.Equal(t, first.Version, b.Found[0].Version)
}

// The time of a batch is not before the states that other transactions stored.
func TestRunReadsTheClockWhenAllKeysAreLocked(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	for _, batch := range []func(*testing.T, ...string) *driver.Batch{requestEach, oneRequest} {
		s, table := newStore(t, p)
		s.SetLockTimeout(time.Minute)
		s.Run(ctx, requestEach(t, "a", "b"))
		other := begin(t, p)
		storeIn(t, other, table).Run(ctx, requestEach(t, "a"))
		done := runLater(s, batch(t, "a", "b"))
		waitForLocks(t, p, "sluice_s", 1)
		before := serverTime(t, s)
		require.NoError(t, other.Commit(ctx))
		b := <-done
		require.NoError(t, b.Err)
		require.False(t, b.At.Before(before))
	}
}

// Only the requests that use the locked key fail.
func TestRunWithALockedKey(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	s.SetLockTimeout(time.Millisecond)
	s.Run(ctx, requestEach(t, "a", "b", "c"))
	holder := begin(t, p)
	storeIn(t, holder, table).Run(ctx, requestEach(t, "b"))

	b := requestEach(t, "c", "b", "a", "d")
	s.Run(ctx, b)
	require.NoError(t, b.Err)
	require.Len(t, b.KeyErr, 4)
	for i, err := range b.KeyErr {
		require.Equal(t, i == 1, err != nil)
	}
	requireKinds(t, b.KeyErr[1], storage.ErrContended, storage.ErrNotApplied)
	require.Equal(t, []int{1, 0, 1, 1}, appliedOf(b))
	require.False(t, b.At.IsZero())

	b = requestEach(t, "a", "b", "c", "d", "e") // one request uses a and b, another c and d
	use := func(keys ...int) (r driver.Request) {
		for _, key := range keys {
			r.Uses = append(r.Uses, driver.Use{Key: key, Cost: 1})
		}
		return r
	}
	b.Requests = []driver.Request{use(0, 1), use(2, 3), use(3), use(4), use(0)}
	s.Run(ctx, b)
	require.NoError(t, b.Err)
	for i, err := range b.KeyErr {
		require.Equal(t, i <= 1, err != nil)
	}
	require.Equal(t, []int{0, 0, 1, 1, 0}, appliedOf(b))

	alone, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	b = requestEach(t, "b")
	s.Run(alone, b)
	requireKinds(t, b.Err, storage.ErrContended, storage.ErrNotApplied)
}

func TestRunWaitsForAKeyThatAllRequestsUse(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	s.SetLockTimeout(time.Millisecond)
	s.Run(ctx, requestEach(t, "all"))
	holder := begin(t, p)
	storeIn(t, holder, table).Run(ctx, requestEach(t, "all"))
	b := requestEach(t, "all", "a", "b")
	for i := 1; i <= 2; i++ {
		b.Requests[i].Uses = append(b.Requests[i].Uses, driver.Use{Key: 0, Cost: 1, Shadow: true})
	}
	done := runLater(s, b)
	waitForLocks(t, p, "sluice_s", 1)
	require.NoError(t, holder.Rollback(ctx))
	require.NoError(t, (<-done).Err)
	require.Nil(t, b.KeyErr)
	require.Equal(t, []int{1, 1, 1}, appliedOf(b))
}

// The batches have the same keys in different orders.
func TestConcurrentRunsDoNotDeadlock(t *testing.T) {
	p := newPool(t, shared.Postgres(t).DSN()+"&pool_max_conns=8")
	s, _ := newStore(t, p)
	s.SetLockTimeout(time.Minute)
	errs := make(chan error, 8)
	for i := range 8 {
		batch := []func(*testing.T, ...string) *driver.Batch{requestEach, oneRequest}[i%2]
		go func() {
			var err error
			for j := range 30 {
				var keys []string
				for k := range 6 {
					keys = append(keys, fmt.Sprint(j, " ", (k*(1+i%6)+i)%7))
				}
				b := batch(t, keys[:4]...)
				if s.Run(context.Background(), b); err == nil {
					err = b.Err
				}
			}
			errs <- err
		}()
	}
	for range 8 {
		require.NoError(t, <-errs)
	}
}

// requireLimits requires that a limiter on s denies, and allows again after a reset.
func requireLimits(t *testing.T, s *postgres.Store) {
	limiter, err := sluice.New(s, "gcra 1/h")
	require.NoError(t, err)
	for _, allowed := range []bool{true, false} {
		d, err := limiter.Allow(t.Context(), "ann")
		require.NoError(t, err)
		require.Equal(t, allowed, d.Allowed)
	}
	require.NoError(t, limiter.Reset(t.Context(), "ann"))
	d, err := limiter.Allow(t.Context(), "ann")
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

func TestStoreWithoutFunctions(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	none := postgres.Options{Schema: newSchema(t, p), Table: "limits", NoFunctions: true}
	without := open(t, p, none)
	require.False(t, without.Runs(newProgram(t, 2)))
	require.NotContains(t, without.Schema(), "FUNCTION")
	b := requestEach(t, "a")
	without.Run(ctx, b)
	requireKinds(t, b.Err, storage.ErrNotApplied)
	_, swapped, err := without.CompareAndSwap(ctx, creating("b")...)
	require.NoError(t, err)
	require.True(t, swapped)
	stored, _, err := without.Load(ctx, "b")
	require.NoError(t, err)
	for op, applied := range map[driver.Op]int{driver.Peek: 0, driver.Reset: driver.Declined} {
		batch := &driver.Batch{Version: storage.NewVersion(), Keys: []string{"b"}, Requests: []driver.Request{{Uses: []driver.Use{{Op: op}}}}}
		without.Run(ctx, batch)
		require.NoError(t, batch.Err)
		require.Equal(t, stored, batch.Found)
		require.Equal(t, []int{applied}, appliedOf(batch))
	}
	requireLimits(t, without)

	s, err := postgres.New(p, postgres.Options{Schema: none.Schema, Table: "limits"})
	require.NoError(t, err)
	require.True(t, s.Runs(newProgram(t, 2)))
	s.Run(ctx, b)
	requireKinds(t, b.Err, storage.ErrNotApplied)
	require.ErrorContains(t, b.Err, "call Store.Migrate")
	require.ErrorContains(t, b.Err, "Options.NoFunctions")
	require.NoError(t, s.Migrate(ctx))
	s.Run(ctx, b)
	require.NoError(t, b.Err)
}

// A store refuses a program that is not in its Options. Stores with different programs may share a
// schema.
func TestRunOfAUsersProgram(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	always := algo.Program{Name: "always", SQL: "BEGIN RETURN int8send(times) || int8send(1000000000) || state || decode('01', 'hex'); END "}
	plain := open(t, p, postgres.Options{Schema: newSchema(t, p), Table: "limits"})
	require.False(t, plain.Runs(&always))
	b := requestEach(t, "a")
	b.Programs[0] = &always
	plain.Run(ctx, b)
	require.ErrorContains(t, b.Err, `"always"`)

	s, err := postgres.New(p, postgres.Options{Schema: fmt.Sprint("schema_", tables.Load()), Table: "limits", Programs: []algo.Program{always}})
	require.NoError(t, err)
	require.NoError(t, s.Migrate(ctx))
	require.True(t, s.Runs(&algo.Program{Parts: []algo.Program{always, *newProgram(t, 2)}}))
	for range 2 {
		s.Run(ctx, b)
		b.Version++
	}
	require.NoError(t, b.Err)
	require.Equal(t, []byte{1}, b.Found[0].State)
	plain.Run(ctx, requestEach(t, "b"))

	_, err = postgres.New(p, postgres.Options{Programs: []algo.Program{always, {Name: "always", SQL: "BEGIN END"}}})
	require.ErrorContains(t, err, "two different programs")
}

// A retry does not help, whatever the code of the error is.
func TestFailingProgramOfAUserIsReported(t *testing.T) {
	p := newPool(t, shared.Postgres(t).DSN())
	for code, fails := range map[string]string{"22012": "times := 1 / (times - 1)", "22P02": "times := 'many'"} {
		broken := algo.Program{Name: "broken", SQL: "BEGIN " + fails + "; RETURN int8send(times); END "}
		s := open(t, p, postgres.Options{Schema: newSchema(t, p), Table: "limits", Programs: []algo.Program{broken}})
		for _, batch := range []func(*testing.T, ...string) *driver.Batch{requestEach, oneRequest} {
			for _, keys := range [][]string{{"a"}, {"a", "b"}} {
				b := batch(t, keys...)
				b.Programs[0] = &broken
				s.Run(t.Context(), b)
				requireKinds(t, b.Err, storage.ErrNotApplied)
				require.ErrorContains(t, b.Err, code)
			}
		}
	}
}

// serverTime returns the time of a batch that decides nothing.
func serverTime(t *testing.T, s *postgres.Store) time.Time {
	b := &driver.Batch{Version: storage.NewVersion()}
	s.Run(t.Context(), b)
	require.NoError(t, b.Err)
	return b.At
}
