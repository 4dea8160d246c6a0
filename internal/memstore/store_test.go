package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/memstore"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/storagetest"
)

var (
	ctx   = context.Background()
	epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// virtual is a clock that the test moves.
type virtual struct{ passed atomic.Int64 }

func (v *virtual) now() time.Time          { return epoch.Add(time.Duration(v.passed.Load())) }
func (v *virtual) advance(d time.Duration) { v.passed.Add(int64(d)) }

// at sets the clock of a store that no other goroutine uses.
func at(s *memstore.Store, now time.Time) *memstore.Store {
	s.Clock = func() time.Time { return now }
	return s
}

func TestLaws(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storagetest.Harness {
		clock := new(virtual)
		return storagetest.Harness{
			Store:   &memstore.Store{Clock: clock.now},
			Other:   &memstore.Store{Clock: clock.now},
			Advance: clock.advance,
			Now:     clock.now,
		}
	})
}

// The laws hold, too, where every creation must make room first.
func TestLawsOfAFullStore(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storagetest.Harness {
		clock := new(virtual)
		full := &memstore.Store{MaxKeys: 2000}
		for i := range 2000 {
			put(t, full, epoch, fmt.Sprint("short lived ", i), 1)
		}
		full.Clock = clock.now
		clock.advance(1)
		return storagetest.Harness{Store: sweptFirst{full}, Other: &memstore.Store{Clock: clock.now}, Advance: clock.advance, Now: clock.now}
	})
}

// sweptFirst purges what the test filled the store with before it counts.
type sweptFirst struct{ *memstore.Store }

func (s sweptFirst) Purge(ctx context.Context, max int) (int, error) {
	s.Sweep(epoch.Add(1), math.MaxInt)
	return s.Store.Purge(ctx, max)
}

func swapOf(key string, old storage.Version, state string, ttl time.Duration) storage.Swap {
	return storage.Swap{Key: key, Old: old, TTL: ttl, New: storage.Record{Version: storage.NewVersion(), State: []byte(state)}}
}

// put creates a record.
func put(t *testing.T, s *memstore.Store, now time.Time, key string, ttl time.Duration) {
	t.Helper()
	_, swapped, err := at(s, now).CompareAndSwap(ctx, swapOf(key, 0, key, ttl))
	require.NoError(t, err)
	require.True(t, swapped)
}

// used creates a record that has used some part of its limit.
func used(t *testing.T, s *memstore.Store, now time.Time, key string, ttl time.Duration, p storage.Priority) {
	t.Helper()
	swap := swapOf(key, 0, key, ttl)
	swap.Priority = p
	_, swapped, err := at(s, now).CompareAndSwap(ctx, swap)
	require.NoError(t, err)
	require.True(t, swapped)
}

// has lists which of keys are there.
func has(t *testing.T, s *memstore.Store, now time.Time, keys ...string) (there []string) {
	t.Helper()
	records, err := at(s, now).Load(ctx, keys...)
	require.NoError(t, err)
	for i, r := range records {
		if r.Version != 0 {
			require.Equal(t, keys[i], string(r.State))
			there = append(there, keys[i])
		}
	}
	return there
}

func TestALapsedRecordIsEvictedFirst(t *testing.T) {
	s := &memstore.Store{MaxKeys: 3}
	put(t, s, epoch, "little", time.Minute)
	used(t, s, epoch, "used up", 10*time.Second, storage.UsedUp)
	used(t, s, epoch, "for ever", 0, storage.UsedUp)
	put(t, s, epoch.Add(10*time.Second), "a", time.Hour) // to the nanosecond
	require.Equal(t, memstore.Stats{Keys: 3, Lapsed: 1}, s.Stats())
	require.Equal(t, []string{"little", "for ever", "a"}, has(t, s, epoch, "little", "used up", "for ever", "a"))
}

func TestAmongProtectedRecordsTheLowestPriorityAndThenTheFirstToLapseIsEvicted(t *testing.T) {
	s := &memstore.Store{MaxKeys: 4}
	used(t, s, epoch, "up, 1m", time.Minute, storage.UsedUp)
	used(t, s, epoch, "half, 1h", time.Hour, storage.UsedHalf)
	used(t, s, epoch, "up, 1s", time.Second, storage.UsedUp)
	used(t, s, epoch, "most, 1h", time.Hour, storage.UsedMost)
	all := []string{"up, 1m", "half, 1h", "up, 1s", "most, 1h"}
	for i, next := range []string{"half, 1h", "most, 1h", "up, 1s", "up, 1m"} {
		require.Contains(t, has(t, s, epoch, all...), next)
		used(t, s, epoch, fmt.Sprint("new ", i), 2*time.Minute, storage.UsedUp)
		require.NotContains(t, has(t, s, epoch, all...), next)
		require.Len(t, has(t, s, epoch, all...), 3-i)
	}
}

// Records that have used little are evicted before all others, and in turn: if the others
// fill their share of the store, a new key still outlives the next ones.
func TestANewKeyOutlivesTheNextOnes(t *testing.T) {
	const maxKeys = 1024
	s := &memstore.Store{MaxKeys: maxKeys}
	for i := range maxKeys {
		used(t, s, epoch, fmt.Sprint("half ", i), time.Hour, storage.UsedHalf)
	}
	const next = maxKeys / 64 // an eighth of those that are not protected
	outlived := 0
	for i := range 4 * maxKeys {
		put(t, s, epoch, fmt.Sprint("new ", i), time.Second)
		require.NotEmpty(t, has(t, s, epoch, fmt.Sprint("new ", i)))
		if i >= next {
			outlived += len(has(t, s, epoch, fmt.Sprint("new ", i-next)))
		}
	}
	require.Greater(t, outlived, 4*maxKeys*9/10)
	require.Equal(t, maxKeys, s.Stats().Keys)
	kept := 0
	for i := range maxKeys {
		kept += len(has(t, s, epoch, fmt.Sprint("half ", i)))
	}
	require.Equal(t, maxKeys-maxKeys/8, kept)
}

// A record that is written again outlives those that are not.
func TestARecordInUseOutlivesAFlood(t *testing.T) {
	const maxKeys = 1000
	s := &memstore.Store{MaxKeys: maxKeys}
	for i := range 10 * maxKeys {
		require.NoError(t, s.Update(ctx, epoch, []string{"in use"}, &putter{[]byte("in use")}))
		put(t, s, epoch, strconv.Itoa(i), time.Hour)
		require.Len(t, has(t, s, epoch, "in use"), 1, "after %d keys", i)
	}
}

func TestKeysOfOneRuleDoNotEvictThoseOfAnother(t *testing.T) {
	s := &memstore.Store{MaxKeys: 10}
	everyone := driver.Key("", "", "everyone", "")
	put(t, s, epoch, everyone, time.Second)
	for i := range 1000 {
		used(t, s, epoch, driver.Key("", "", "customer", strings.Repeat("c", i)), time.Hour, storage.UsedUp)
	}
	require.Equal(t, memstore.Stats{Keys: 11, Evicted: 990}, s.Stats())
	require.Len(t, has(t, s, epoch, everyone), 1)
}

func TestLoadingTakesNoMemory(t *testing.T) {
	s, before := new(memstore.Store), heapInUse()
	for i := range 1000 {
		require.Empty(t, has(t, s, epoch, driver.Key("", "", fmt.Sprint("rule ", i), "ann")))
	}
	require.Less(t, heapInUse()-before, 1_000_000)
}

func TestSweepingFreesTheMemoryOfARuleThatIsNotUsedAnyMore(t *testing.T) {
	s, before := new(memstore.Store), heapInUse()
	for i := range 100_000 {
		put(t, s, epoch, driver.Key("", "", "old rule", strconv.Itoa(i)), time.Second)
	}
	require.Greater(t, heapInUse()-before, 5_000_000)
	require.Equal(t, 100_000, s.Sweep(epoch.Add(time.Second), math.MaxInt))
	require.Less(t, heapInUse()-before, 500_000)
	require.Equal(t, memstore.Stats{Lapsed: 100_000}, s.Stats())
	put(t, s, epoch, driver.Key("", "", "old rule", "1"), time.Second)
	require.Equal(t, memstore.Stats{Keys: 1, Lapsed: 100_000}, s.Stats())
}

func TestNothingIsDroppedBeforeTheStoreIsFull(t *testing.T) {
	s := &memstore.Store{MaxKeys: 10_000}
	for i := range 10_000 {
		put(t, s, epoch, strconv.Itoa(i), time.Minute)
	}
	require.Equal(t, memstore.Stats{Keys: 10_000}, s.Stats())
	for i := range 10_000 {
		require.Len(t, has(t, s, epoch, strconv.Itoa(i)), 1)
	}
}

// More records of one rule at once than MaxKeys are written like all others, and then
// some of them are evicted.
func TestMoreKeysAtOnceThanMaxKeys(t *testing.T) {
	s := &memstore.Store{MaxKeys: 1}
	put(t, s, epoch, "old", time.Minute)
	_, swapped, err := at(s, epoch).CompareAndSwap(ctx, swapOf("a", 0, "a", 0), swapOf("b", 0, "b", 0))
	require.NoError(t, err)
	require.True(t, swapped)
	require.Equal(t, memstore.Stats{Keys: 1, Evicted: 2}, s.Stats())
	require.NoError(t, s.Update(ctx, epoch, []string{"c", "d"}, &putter{[]byte("x")}))
	require.Equal(t, memstore.Stats{Keys: 1, Evicted: 4}, s.Stats())
}

func TestDeletedRecordsLeaveTheirRoom(t *testing.T) {
	s := &memstore.Store{MaxKeys: 2}
	for i := range 1000 {
		a, b := swapOf("a", 0, strings.Repeat("a", i), time.Minute), swapOf("b", 0, "b", 0)
		_, swapped, err := at(s, epoch).CompareAndSwap(ctx, a, b)
		require.NoError(t, err)
		require.True(t, swapped)
		require.Equal(t, 2, s.Stats().Keys)
		_, swapped, err = at(s, epoch).CompareAndSwap(ctx, storage.Swap{Key: "a", Old: a.New.Version}, storage.Swap{Key: "b", Old: b.New.Version})
		require.NoError(t, err)
		require.True(t, swapped)
		require.Equal(t, memstore.Stats{}, s.Stats())
	}
}

func TestALapsedRecordIsWrittenOverInItsPlace(t *testing.T) {
	s := &memstore.Store{MaxKeys: 2}
	put(t, s, epoch, "a", time.Minute)
	put(t, s, epoch, "b", time.Second)
	put(t, s, epoch.Add(time.Second), "b", time.Hour)
	require.NoError(t, s.Update(ctx, epoch.Add(time.Minute), []string{"a"}, &putter{[]byte("a")}))
	require.Equal(t, []string{"a", "b"}, has(t, s, epoch, "a", "b"))
	require.Equal(t, memstore.Stats{Keys: 2}, s.Stats())
}

func TestSweep(t *testing.T) {
	s := new(memstore.Store)
	for i := range 1000 {
		put(t, s, epoch, strconv.Itoa(i), time.Duration(i+1)*time.Second)
	}
	require.Zero(t, s.Sweep(epoch.Add(time.Second-1), math.MaxInt))
	require.Zero(t, s.Sweep(epoch.Add(time.Hour), 0))
	require.Equal(t, 1, s.Sweep(epoch.Add(time.Second), math.MaxInt))
	require.Equal(t, 100, s.Sweep(epoch.Add(500*time.Second), 100))
	require.Equal(t, 399, s.Sweep(epoch.Add(500*time.Second), math.MaxInt))
	require.Equal(t, memstore.Stats{Keys: 500, Lapsed: 500}, s.Stats())
	for i := range 1000 {
		require.Len(t, has(t, s, epoch, strconv.Itoa(i)), i/500)
	}
}

type decider func(found [][]byte, next []driver.Change) error

func (d decider) Decide(found [][]byte, next []driver.Change) error { return d(found, next) }

func TestAnUpdateThatCreatesNothingKeepsNoRoom(t *testing.T) {
	s := &memstore.Store{MaxKeys: 2}
	put(t, s, epoch, "a", time.Minute)
	failure := errors.New("no")
	for range 10 {
		require.NoError(t, s.Update(ctx, epoch, []string{"absent"}, decider(func([][]byte, []driver.Change) error { return nil })))
		require.Equal(t, failure, s.Update(ctx, epoch, []string{"absent"}, decider(func([][]byte, []driver.Change) error { return failure })))
	}
	put(t, s, epoch, "b", time.Minute)
	require.Equal(t, memstore.Stats{Keys: 2}, s.Stats())
}

func TestUpdateRefusesAnUnknownVerb(t *testing.T) {
	s := new(memstore.Store)
	err := s.Update(ctx, epoch, []string{"a", "b"}, decider(func(_ [][]byte, next []driver.Change) error {
		next[0], next[1].Verb = driver.Change{Verb: driver.Put}, 7
		return nil
	}))
	require.ErrorIs(t, err, storage.ErrSwap)
	require.Zero(t, s.Stats().Keys)
}

func TestUpdateDoesNotAllocate(t *testing.T) {
	s, keys, d := new(memstore.Store), []string{"a", "b", "c"}, &putter{state: []byte("state")}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if s.Update(ctx, epoch, keys, d) != nil {
			panic("update failed")
		}
	}))
}

type putter struct{ state []byte }

func (p *putter) Decide(_ [][]byte, next []driver.Change) error {
	for i := range next {
		next[i] = driver.Change{Verb: driver.Put, State: p.state, TTL: time.Minute}
	}
	return nil
}

// Many writers, few places: no record is counted twice or lost, and each write under
// way passes the bound by its own records at most.
func TestTheBoundHoldsUnderConcurrency(t *testing.T) {
	const maxKeys, writers, times = 50, 8, 2000
	clock := new(virtual)
	s := &memstore.Store{MaxKeys: maxKeys, Clock: clock.now}
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for i := range times {
				clock.advance(time.Millisecond / writers)
				now := clock.now()
				a, b := strconv.Itoa(random.IntN(200)), "x"+strconv.Itoa(random.IntN(200))
				switch i % 4 {
				case 0:
					_ = s.Update(ctx, now, []string{b, a}, &putter{[]byte("updated")})
				case 1:
					s.Sweep(now, 3)
				default:
					records, _ := s.Load(ctx, a, b)
					_, _, err := s.CompareAndSwap(ctx, swapOf(a, records[0].Version, "swapped", time.Duration(1+random.IntN(1000))*time.Millisecond),
						storage.Swap{Key: b, Old: records[1].Version})
					if err != nil {
						t.Error(err)
					}
				}
				if keys := s.Stats().Keys; keys > maxKeys+2*writers {
					t.Errorf("%d keys", keys)
				}
			}
		})
	}
	group.Wait()
	there := 0
	for i := range 200 {
		records, err := at(s, epoch).Load(ctx, strconv.Itoa(i), "x"+strconv.Itoa(i))
		require.NoError(t, err)
		for _, r := range records {
			if r.Version != 0 {
				there++
			}
		}
	}
	require.Equal(t, there, s.Stats().Keys)
	s.Sweep(epoch.Add(time.Hour*24), math.MaxInt)
	require.Zero(t, s.Stats().Keys)
}

// model is a store as simple as can be, which learns from the real one what was evicted
// and says whether that was right.
type model struct {
	maxKeys int
	kept    map[string]kept
}

type kept struct {
	storage.Record
	lapses   time.Time
	priority storage.Priority
}

func (m *model) load(now time.Time, key string) storage.Record {
	if k, ok := m.kept[key]; ok && now.Before(k.lapses) {
		return k.Record
	}
	return storage.Record{}
}

// swap makes a swap, and reports whether it created a record.
func (m *model) swap(now time.Time, swap storage.Swap) (swapped, created bool) {
	if m.load(now, swap.Key).Version != swap.Old {
		return false, false
	}
	if swap.New.Version == 0 {
		delete(m.kept, swap.Key)
		return true, false
	}
	_, held := m.kept[swap.Key]
	m.kept[swap.Key] = kept{swap.New, now.Add(swap.TTL), swap.Priority}
	return true, !held
}

// mayEvict reports whether the record of a key is one that may go for a new one.
func (m *model) mayEvict(now time.Time, victim, created string) bool {
	v, protected, unprotected := m.kept[victim], 0, 0
	if victim == created {
		return false
	}
	if !now.Before(v.lapses) {
		return true
	}
	worth := func(k kept) int64 { return int64(k.priority)<<60 + k.lapses.UnixNano()/8 }
	least := true
	for key, k := range m.kept {
		switch {
		case !now.Before(k.lapses) && key != created:
			return false // a lapsed one goes first
		case k.priority < storage.UsedHalf:
			if key != created {
				unprotected++
			}
		default:
			protected++
			least = least && (key == created || worth(k) >= worth(v))
		}
	}
	crowded := protected > m.maxKeys-max(1, m.maxKeys/8)
	if unprotected > 0 && !crowded {
		return v.priority < storage.UsedHalf
	}
	return v.priority >= storage.UsedHalf && least || protected == 0
}

// Swap by swap, the store holds what the model does, and evicts what it may.
func TestAgainstAModel(t *testing.T) {
	for seed := range uint64(max(2, 16/scale)) {
		random := rand.New(rand.NewPCG(seed, 0))
		maxKeys := 1 + random.IntN(100)
		s, m, now := &memstore.Store{MaxKeys: maxKeys}, &model{maxKeys: maxKeys, kept: map[string]kept{}}, epoch
		keys := make([]string, 2*maxKeys)
		for i := range keys {
			keys[i] = strconv.Itoa(i)
		}
		evicted := map[storage.Priority]int{}
		for step := range 5000 {
			now = now.Add(time.Duration(random.IntN(10_000_000)))
			key := keys[random.IntN(len(keys))]
			swap := swapOf(key, m.load(now, key).Version, strings.Repeat(key, random.IntN(20)), time.Duration(1+random.IntN(1_000_000))*10_000)
			swap.Priority = storage.Priority(random.IntN(int(storage.UsedUp + 1)))
			switch random.IntN(10) {
			case 0:
				swap.Old = storage.NewVersion()
			case 1:
				swap.New, swap.TTL = storage.Record{}, 0
			}
			_, swapped, err := at(s, now).CompareAndSwap(ctx, swap)
			require.NoError(t, err)
			want, created := m.swap(now, swap)
			require.Equal(t, want, swapped, "seed %d step %d", seed, step)
			if created && len(m.kept) > maxKeys {
				there := held(t, s, epoch, keys...) // even lapsed records are there for a decision of that time
				for key := range m.kept {
					if !there[key] {
						require.True(t, m.mayEvict(now, key, swap.Key), "seed %d step %d: %+v was evicted for %+v", seed, step, m.kept[key], swap)
						evicted[m.kept[key].priority]++
						delete(m.kept, key)
					}
				}
			}
			require.Len(t, m.kept, s.Stats().Keys, "seed %d step %d", seed, step)
			if step%50 == 0 {
				records, err := at(s, now).Load(ctx, keys...)
				require.NoError(t, err)
				for i, r := range records {
					if want := m.load(now, keys[i]); want.Version != r.Version || !slices.Equal(want.State, r.State) {
						t.Fatalf("seed %d step %d key %d: %v, want %v", seed, step, i, r, want)
					}
				}
			}
		}
		require.Len(t, evicted, int(storage.UsedUp+1))
	}
}

// held is the set of those keys that are there.
func held(t *testing.T, s *memstore.Store, now time.Time, keys ...string) map[string]bool {
	t.Helper()
	records, err := at(s, now).Load(ctx, keys...)
	require.NoError(t, err)
	there := map[string]bool{}
	for i, r := range records {
		there[keys[i]] = r.Version != 0
	}
	return there
}
