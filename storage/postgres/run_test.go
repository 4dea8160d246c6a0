package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

// spend takes units of a key like requestEach, in a transaction, and returns the version of the record.
func spend(t *testing.T, tx pgx.Tx, table, key string, units int64) storage.Version {
	policy, err := gcra.New(gcra.Options{Limit: algo.Per(2, time.Hour)})
	require.NoError(t, err)
	s := storeIn(t, tx, table)
	records, now, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	swap := creating(key)[0]
	swap.Old = records[0].Version
	swap.New.State, _, err = policy.Charge(nil, records[0].State, now, units)
	require.NoError(t, err)
	_, swapped, err := s.CompareAndSwap(t.Context(), swap)
	require.NoError(t, err)
	require.True(t, swapped)
	return swap.New.Version
}

// The batch decides with the record that another transaction created.
func TestRunWithAKeyThatIsCreatedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		batch func(*testing.T, ...string) *driver.Batch
		keys  []string
		want  []int
	}{
		"one key":                   {requestEach, []string{"b"}, []int{0}},
		"requests of one use":       {requestEach, []string{"c", "b", "a"}, []int{1, 0, 1}},
		"a request of several uses": {oneRequest, []string{"c", "b", "a"}, []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
			s, table := newStore(t, p)
			s.SetLockTimeout(time.Minute)
			other := begin(t, p)
			version := spend(t, other, table, "b", 2)
			done := runLater(s, c.batch(t, c.keys...))
			waitForLocks(t, p, "sluice_decide", 1)
			require.NoError(t, other.Commit(ctx))
			b := <-done
			require.NoError(t, b.Err)
			require.Nil(t, b.KeyErr)
			require.Equal(t, c.want, appliedOf(b))
			for i, key := range c.keys {
				if key == "b" {
					require.Equal(t, version, b.Found[i].Version)
				} else {
					require.Zero(t, b.Found[i])
				}
			}
		})
	}
}

// The time of a batch is not before the states that other transactions stored.
func TestRunReadsTheClockWhenAllKeysAreLocked(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	for _, batch := range []func(*testing.T, ...string) *driver.Batch{requestEach, oneRequest} {
		s, table := newStore(t, p)
		s.SetLockTimeout(time.Minute)
		s.Run(ctx, requestEach(t, "a", "b"))
		other := begin(t, p)
		spend(t, other, table, "a", 1)
		done := runLater(s, batch(t, "a", "b"))
		waitForLocks(t, p, "sluice_decide", 1)
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
	spend(t, holder, table, "b", 1)

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
	require.NoError(t, b.Err)
	requireKinds(t, b.KeyErr[0], storage.ErrContended, storage.ErrNotApplied)
}

func TestRunFailsIfAllRequestsUseALockedKey(t *testing.T) {
	ctx, p := t.Context(), newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	s.SetLockTimeout(time.Millisecond)
	s.Run(ctx, requestEach(t, "all"))
	holder := begin(t, p)
	spend(t, holder, table, "all", 1)
	b := requestEach(t, "all", "a", "b")
	for i := 1; i <= 2; i++ {
		b.Requests[i].Uses = append(b.Requests[i].Uses, driver.Use{Key: 0, Cost: 1, Shadow: true})
	}
	s.Run(ctx, b)
	require.NoError(t, b.Err)
	for _, err := range b.KeyErr {
		requireKinds(t, err, storage.ErrContended, storage.ErrNotApplied)
	}
	require.NoError(t, holder.Rollback(ctx))
	s.Run(ctx, b)
	require.Nil(t, b.KeyErr)
	require.Equal(t, []int{1, 1, 1}, appliedOf(b))
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
	always := algo.Program{Name: "always", SQL: `BEGIN state := state || '\x01'::bytea; ttl := 1000000000; END `}
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
		broken := algo.Program{Name: "broken", SQL: "BEGIN " + fails + "; END "}
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

// serverTime returns the time of the server.
func serverTime(t *testing.T, s *postgres.Store) time.Time {
	_, now, err := s.Load(t.Context(), "any")
	require.NoError(t, err)
	return now
}
