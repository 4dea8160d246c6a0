package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

const many = 64

// pairs are groups of two keys each, that create them.
func pairs(name string) [][]storage.Swap {
	var groups [][]storage.Swap
	for i := range many {
		groups = append(groups, creating(fmt.Sprint(name, i, "b"), fmt.Sprint(name, i, "a")))
	}
	return groups
}

// honest requires of every outcome of a batch that it tells no lie about what
// is stored, and that no group is torn.
func honest(t *testing.T, truth *postgres.Store, groups [][]storage.Swap, outcomes []storage.Outcome) {
	t.Helper()
	for i, group := range groups {
		records, err := truth.Load(context.Background(), group[0].Key, group[1].Key)
		require.NoError(t, err)
		there := records[0].Version == group[0].New.Version
		require.Equal(t, there, records[1].Version == group[1].New.Version, "torn: %d", i)
		if outcomes[i].Err == nil {
			require.Equal(t, there, outcomes[i].Swapped, "group %d", i)
		}
		if errors.Is(outcomes[i].Err, storage.ErrNotApplied) {
			require.False(t, there, "group %d", i)
		}
	}
}

// A fault at the statement of a batch befalls all of its groups alike.
func TestABatchMeetsAFault(t *testing.T) {
	p := pool(t, shared.Postgres(t).DSN())
	truth, table := fresh(t, p)
	for _, kind := range faultproxy.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			through, proxy := counting(t, "")
			s, err := postgres.New(through, postgres.Options{Table: table})
			require.NoError(t, err)
			t.Cleanup(proxy.Refuse)
			proxy.Only(func(request []byte) bool {
				return bytes.Contains(request, []byte(table)) || bytes.Contains(request, []byte("stmtcache"))
			})
			try(t, proxy, s, creating("warm "+kind.String()))

			proxy.Plan(faultproxy.Fault{At: 1, Kind: kind})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if kind.Hangs() {
				go func() {
					for ctx.Err() == nil && proxy.Seen() == 0 {
						time.Sleep(time.Millisecond)
					}
					cancel()
				}()
			}
			groups := pairs(kind.String())
			outcomes := s.CompareAndSwapBatch(ctx, groups...)
			for _, o := range outcomes {
				require.ErrorIs(t, o.Err, storage.ErrUnavailable)
				require.NotErrorIs(t, o.Err, storage.ErrNotApplied)
				require.Nil(t, o.Current)
				require.False(t, o.Swapped)
			}
			require.Eventually(t, func() bool { proxy.Release(); return len(proxy.Hits()) == 1 }, 20*time.Second, time.Millisecond)
			honest(t, truth, groups, outcomes)
			records, err := truth.Load(t.Context(), groups[many-1][0].Key)
			require.NoError(t, err)
			if !kind.Hangs() || !kind.Applied() { // else pgx may have had the server cancel it
				require.Equal(t, kind.Applied(), records[0].Version != 0)
			}
		})
	}
}

// One group loses, and the others do not notice.
func TestABatchWithLosers(t *testing.T) {
	s, _ := fresh(t, pool(t, shared.Postgres(t).DSN()))
	groups := pairs("x")
	require.True(t, s.CompareAndSwapBatch(t.Context(), groups[7])[0].Swapped)
	fails := pairs("x")
	fails[3] = creating(string(make([]byte, storage.MaxKey+1)), "x")
	outcomes := s.CompareAndSwapBatch(t.Context(), fails...)
	for i, o := range outcomes {
		switch i {
		case 3:
			require.ErrorIs(t, o.Err, storage.ErrKey)
		case 7:
			require.NoError(t, o.Err)
			require.Equal(t, []storage.Record{groups[7][0].New, groups[7][1].New}, o.Current)
		default:
			require.Equal(t, storage.Outcome{Swapped: true}, o)
		}
	}
}

// Many keys of a batch are created by others at the same moment, and the batch
// is still one statement, or few.
func TestABatchIsRaced(t *testing.T) {
	var singles [][]storage.Swap
	for i := range many {
		singles = append(singles, creating(fmt.Sprint("single", i)))
	}
	for name, c := range map[string]struct {
		groups [][]storage.Swap
		trips  int
	}{
		"groups of two keys": {pairs("x"), 4}, // two tries, and pgx prepares anew after an error
		"groups of one key":  {singles, 2},    // the second is of those that were raced
	} {
		t.Run(name, func(t *testing.T) {
			p := pool(t, shared.Postgres(t).DSN())
			s, table := fresh(t, p)
			through, proxy := counting(t, "")
			raced, err := postgres.New(through, postgres.Options{Table: table})
			require.NoError(t, err)
			raced.WaitFor(time.Minute)
			try(t, proxy, raced, creating("warm"))

			winner, lost := transaction(t, p), []int{5, 20, 40}
			first := inside(t, winner, table)
			for _, i := range lost {
				require.True(t, first.CompareAndSwapBatch(t.Context(), creating(c.groups[i][0].Key))[0].Swapped)
			}
			proxy.Plan()
			done := make(chan []storage.Outcome, 1)
			go func() { done <- raced.CompareAndSwapBatch(context.Background(), c.groups...) }()
			waiting(t, p, table, 1)
			require.NoError(t, winner.Commit(t.Context()))
			for i, o := range <-done {
				require.NoError(t, o.Err)
				require.Equal(t, !slices.Contains(lost, i), o.Swapped)
				records, err := s.Load(t.Context(), keysOf(c.groups[i])...)
				require.NoError(t, err)
				if !o.Swapped {
					require.Equal(t, records, o.Current)
					require.NotZero(t, records[0].Version)
				}
				for k, swap := range c.groups[i] {
					require.Equal(t, o.Swapped, records[k].Version == swap.New.Version, "group %d, key %d", i, k)
				}
			}
			require.LessOrEqual(t, proxy.Seen(), c.trips)
		})
	}
}

func keysOf(swaps []storage.Swap) (keys []string) {
	for _, s := range swaps {
		keys = append(keys, s.Key)
	}
	return keys
}

// Batches on the same keys come in any order from many sides: first all create
// them, then all replace what they have seen. No ring of waits forms, which
// Postgres would break with an error after a second.
func TestBatchesDoNotDeadlock(t *testing.T) {
	const writers, rounds, keys = 8, 8, 48
	s, _ := fresh(t, pool(t, shared.Postgres(t).DSN()+"&pool_max_conns=8"))
	s.WaitFor(time.Minute)
	for round := range rounds {
		var errs [writers]error
		var group sync.WaitGroup
		start := make(chan struct{})
		for w := range writers {
			random := rand.New(rand.NewPCG(uint64(w), uint64(round)))
			group.Go(func() {
				<-start
				seen := map[string]storage.Version{}
				for range 3 {
					errs[w] = errors.Join(errs[w], swapAll(s, seen, fmt.Sprint(round, "/"), random.Perm(keys)))
				}
			})
		}
		close(start)
		group.Wait()
		require.NoError(t, errors.Join(errs[:]...))
	}
}

// swapAll swaps numbered keys by twos, and learns what is there.
func swapAll(s *postgres.Store, seen map[string]storage.Version, prefix string, order []int) (err error) {
	var groups [][]storage.Swap
	for i := 0; i < len(order); i += 2 {
		swaps := creating(fmt.Sprint(prefix, order[i]), fmt.Sprint(prefix, order[i+1]))
		swaps[0].Old, swaps[1].Old = seen[swaps[0].Key], seen[swaps[1].Key]
		groups = append(groups, swaps)
	}
	for i, o := range s.CompareAndSwapBatch(context.Background(), groups...) {
		err = errors.Join(err, o.Err)
		for k, swap := range groups[i] {
			if o.Swapped {
				seen[swap.Key] = swap.New.Version
			} else if o.Err == nil {
				seen[swap.Key] = o.Current[k].Version
			}
		}
	}
	return err
}

// A transaction of somebody's holds a key of one group for long: that group is
// told so, and the others are not held up.
func TestABatchWithALockedKey(t *testing.T) {
	ctx, p := context.Background(), pool(t, shared.Postgres(t).DSN())
	s, table := fresh(t, p)
	groups := pairs("x")
	for _, o := range s.CompareAndSwapBatch(ctx, groups...) {
		require.True(t, o.Swapped)
	}
	holder := transaction(t, p)
	_, swapped, err := inside(t, holder, table).CompareAndSwap(ctx, after(groups[9])...)
	require.NoError(t, err)
	require.True(t, swapped)

	for name, limit := range map[string]time.Duration{"no deadline": 0, "a deadline": time.Minute} {
		t.Run(name, func(t *testing.T) {
			ctx := ctx
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			groups = replacing(groups)
			for i, o := range s.CompareAndSwapBatch(ctx, groups...) {
				if i == 9 {
					require.ErrorIs(t, o.Err, storage.ErrContended)
					groups[i][0].New.Version, groups[i][1].New.Version = groups[i][0].Old, groups[i][1].Old
				} else {
					require.Equal(t, storage.Outcome{Swapped: true}, o)
				}
			}
		})
	}
	require.NoError(t, holder.Rollback(context.Background()))
	for _, o := range s.CompareAndSwapBatch(context.Background(), replacing(groups)...) {
		require.Equal(t, storage.Outcome{Swapped: true}, o)
	}
}
