package memory_test

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

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
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

func TestLaws(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storagetest.Harness {
		clock := new(virtual)
		return storagetest.Harness{
			Store:   &memory.Store{Clock: clock.now},
			Other:   &memory.Store{Clock: clock.now},
			Advance: clock.advance,
		}
	})
}

// The laws hold, too, where every creation must make room first.
func TestLawsOfAFullStore(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storagetest.Harness {
		clock := new(virtual)
		full := &memory.Store{Clock: clock.now, MaxKeys: 2000}
		for i := range 2000 {
			put(t, full, epoch, fmt.Sprint("short lived ", i), 1)
		}
		clock.advance(1)
		return storagetest.Harness{Store: sweptFirst{full}, Other: &memory.Store{Clock: clock.now}, Advance: clock.advance}
	})
}

// sweptFirst purges what the test filled the store with before it counts.
type sweptFirst struct{ *memory.Store }

func (s sweptFirst) Purge(ctx context.Context, max int) (int, error) {
	s.Sweep(epoch.Add(1), math.MaxInt)
	return s.Store.Purge(ctx, max)
}

func swapOf(key string, old storage.Version, state string, ttl time.Duration) storage.Swap {
	return storage.Swap{Key: key, Old: old, TTL: ttl, New: storage.Record{Version: storage.NewVersion(), State: []byte(state)}}
}

// put creates a record.
func put(t *testing.T, s *memory.Store, now time.Time, key string, ttl time.Duration) {
	t.Helper()
	_, swapped, err := s.CompareAndSwapAt(ctx, now, swapOf(key, 0, key, ttl))
	require.NoError(t, err)
	require.True(t, swapped)
}

// has lists which of keys are there.
func has(t *testing.T, s *memory.Store, now time.Time, keys ...string) (there []string) {
	t.Helper()
	records, err := s.LoadAt(ctx, now, keys...)
	require.NoError(t, err)
	for i, r := range records {
		if r.Version != 0 {
			require.Equal(t, keys[i], string(r.State))
			there = append(there, keys[i])
		}
	}
	return there
}

func TestLapsedGoesFirstThenNearestToLapsing(t *testing.T) {
	s := &memory.Store{MaxKeys: 4}
	put(t, s, epoch, "for ever", 0)
	put(t, s, epoch, "10s", 10*time.Second)
	put(t, s, epoch, "30s", 30*time.Second)
	put(t, s, epoch, "20s", 20*time.Second)
	require.Equal(t, memory.Stats{Keys: 4}, s.Stats())

	put(t, s, epoch.Add(10*time.Second), "a", time.Hour) // 10s has lapsed, to the nanosecond
	require.Equal(t, memory.Stats{Keys: 4, Lapsed: 1}, s.Stats())
	require.Equal(t, []string{"for ever", "30s", "20s", "a"}, has(t, s, epoch, "for ever", "10s", "30s", "20s", "a"))

	put(t, s, epoch.Add(20*time.Second-1), "b", time.Hour) // 20s is still live, and the nearest
	require.Equal(t, memory.Stats{Keys: 4, Lapsed: 1, Evicted: 1}, s.Stats())
	require.Equal(t, []string{"for ever", "30s", "a", "b"}, has(t, s, epoch, "for ever", "30s", "20s", "a", "b"))

	put(t, s, epoch, "c", 0)
	put(t, s, epoch, "d", 0)
	put(t, s, epoch, "e", 0)
	require.Equal(t, []string{"for ever", "c", "d", "e"}, has(t, s, epoch, "for ever", "a", "b", "30s", "c", "d", "e"))
}

func TestARecordGivenMoreTimeIsKept(t *testing.T) {
	s := &memory.Store{MaxKeys: 2}
	first := swapOf("first", 0, "first", time.Second)
	_, _, err := s.CompareAndSwapAt(ctx, epoch, first)
	require.NoError(t, err)
	put(t, s, epoch, "second", time.Minute)
	_, swapped, err := s.CompareAndSwapAt(ctx, epoch, swapOf("first", first.New.Version, "first", time.Hour))
	require.NoError(t, err)
	require.True(t, swapped)

	put(t, s, epoch, "third", time.Hour)
	require.Equal(t, []string{"first", "third"}, has(t, s, epoch, "first", "second", "third"))
}

func TestNothingIsDroppedBeforeTheStoreIsFull(t *testing.T) {
	s := &memory.Store{MaxKeys: 10_000}
	for i := range 10_000 {
		put(t, s, epoch, strconv.Itoa(i), time.Minute)
	}
	require.Equal(t, memory.Stats{Keys: 10_000}, s.Stats())
	for i := range 10_000 {
		require.Len(t, has(t, s, epoch, strconv.Itoa(i)), 1)
	}
}

func TestMoreKeysAtOnceThanMaxKeys(t *testing.T) {
	s := &memory.Store{MaxKeys: 1}
	put(t, s, epoch, "kept", time.Minute)
	_, swapped, err := s.CompareAndSwapAt(ctx, epoch, swapOf("a", 0, "", 0), swapOf("b", 0, "", 0))
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.False(t, swapped)
	err = s.Update(ctx, epoch, []string{"a", "b"}, decider(func([][]byte, []storage.Change) error { t.Error("asked"); return nil }))
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.Equal(t, []string{"kept"}, has(t, s, epoch, "kept", "a", "b"))
}

func TestDeletedRecordsLeaveTheirRoom(t *testing.T) {
	s := &memory.Store{MaxKeys: 2}
	for i := range 1000 {
		a, b := swapOf("a", 0, strings.Repeat("a", i), time.Minute), swapOf("b", 0, "b", 0)
		_, swapped, err := s.CompareAndSwapAt(ctx, epoch, a, b)
		require.NoError(t, err)
		require.True(t, swapped)
		require.Equal(t, 2, s.Stats().Keys)
		_, swapped, err = s.CompareAndSwapAt(ctx, epoch, storage.Swap{Key: "a", Old: a.New.Version}, storage.Swap{Key: "b", Old: b.New.Version})
		require.NoError(t, err)
		require.True(t, swapped)
		require.Equal(t, memory.Stats{}, s.Stats())
	}
}

func TestALapsedRecordIsWrittenOverInItsPlace(t *testing.T) {
	s := &memory.Store{MaxKeys: 2}
	put(t, s, epoch, "a", time.Minute)
	put(t, s, epoch, "b", time.Second)
	put(t, s, epoch.Add(time.Second), "b", time.Hour)
	require.NoError(t, s.Update(ctx, epoch.Add(time.Minute), []string{"a"}, &putter{[]byte("a")}))
	require.Equal(t, []string{"a", "b"}, has(t, s, epoch, "a", "b"))
	require.Equal(t, memory.Stats{Keys: 2}, s.Stats())
}

func TestSweep(t *testing.T) {
	s := new(memory.Store)
	for i := range 1000 {
		put(t, s, epoch, strconv.Itoa(i), time.Duration(i+1)*time.Second)
	}
	require.Zero(t, s.Sweep(epoch.Add(time.Second-1), math.MaxInt))
	require.Zero(t, s.Sweep(epoch.Add(time.Hour), 0))
	require.Equal(t, 1, s.Sweep(epoch.Add(time.Second), math.MaxInt))
	require.Equal(t, 100, s.Sweep(epoch.Add(500*time.Second), 100))
	require.Equal(t, 399, s.Sweep(epoch.Add(500*time.Second), math.MaxInt))
	require.Equal(t, memory.Stats{Keys: 500, Lapsed: 500}, s.Stats())
	for i := range 1000 {
		require.Len(t, has(t, s, epoch, strconv.Itoa(i)), i/500)
	}
}

type decider func(found [][]byte, next []storage.Change) error

func (d decider) Decide(found [][]byte, next []storage.Change) error { return d(found, next) }

func TestAnUpdateThatCreatesNothingKeepsNoRoom(t *testing.T) {
	s := &memory.Store{MaxKeys: 2}
	put(t, s, epoch, "a", time.Minute)
	failure := errors.New("no")
	for range 10 {
		require.NoError(t, s.Update(ctx, epoch, []string{"absent"}, decider(func([][]byte, []storage.Change) error { return nil })))
		require.Equal(t, failure, s.Update(ctx, epoch, []string{"absent"}, decider(func([][]byte, []storage.Change) error { return failure })))
	}
	put(t, s, epoch, "b", time.Minute)
	require.Equal(t, memory.Stats{Keys: 2}, s.Stats())
}

func TestUpdateRefusesAnUnknownVerb(t *testing.T) {
	s := new(memory.Store)
	err := s.Update(ctx, epoch, []string{"a", "b"}, decider(func(_ [][]byte, next []storage.Change) error {
		next[0], next[1].Verb = storage.Change{Verb: storage.Put}, 7
		return nil
	}))
	require.ErrorIs(t, err, storage.ErrSwap)
	require.Zero(t, s.Stats().Keys)
}

func TestUpdateDoesNotAllocate(t *testing.T) {
	s, keys, d := new(memory.Store), []string{"a", "b", "c"}, &putter{state: []byte("state")}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if s.Update(ctx, epoch, keys, d) != nil {
			panic("update failed")
		}
	}))
}

type putter struct{ state []byte }

func (p *putter) Decide(_ [][]byte, next []storage.Change) error {
	for i := range next {
		next[i] = storage.Change{Verb: storage.Put, State: p.state, TTL: time.Minute}
	}
	return nil
}

// Many writers, few places: no record is counted twice or lost, and the bound is
// never passed, not for an instant.
func TestTheBoundHoldsUnderConcurrency(t *testing.T) {
	const maxKeys, writers, times = 50, 8, 2000
	s := &memory.Store{MaxKeys: maxKeys}
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for i := range times {
				now := epoch.Add(time.Duration(i) * time.Millisecond)
				a, b := strconv.Itoa(random.IntN(200)), "x"+strconv.Itoa(random.IntN(200))
				switch i % 4 {
				case 0:
					_ = s.Update(ctx, now, []string{b, a}, &putter{[]byte("updated")})
				case 1:
					s.Sweep(now, 3)
				default:
					records, _ := s.LoadAt(ctx, now, a, b)
					_, _, err := s.CompareAndSwapAt(ctx, now, swapOf(a, records[0].Version, "swapped", time.Duration(1+random.IntN(1000))*time.Millisecond),
						storage.Swap{Key: b, Old: records[1].Version})
					if err != nil {
						t.Error(err)
					}
				}
				if keys := s.Stats().Keys; keys > maxKeys {
					t.Errorf("%d keys", keys)
				}
			}
		})
	}
	group.Wait()
	there := 0
	for i := range 200 {
		records, err := s.LoadAt(ctx, epoch, strconv.Itoa(i), "x"+strconv.Itoa(i))
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

// model is a store as simple as can be: a map, and a scan for the first to lapse.
type model struct {
	maxKeys int
	kept    map[string]kept
	evicted int64
	lapsed  int64
}

type kept struct {
	storage.Record
	lapses time.Time
}

func (m *model) load(now time.Time, key string) storage.Record {
	if k, ok := m.kept[key]; ok && now.Before(k.lapses) {
		return k.Record
	}
	return storage.Record{}
}

func (m *model) swap(now time.Time, swap storage.Swap) bool {
	if m.load(now, swap.Key).Version != swap.Old {
		return false
	}
	if swap.New.Version == 0 {
		delete(m.kept, swap.Key)
		return true
	}
	if _, ok := m.kept[swap.Key]; !ok && len(m.kept) == m.maxKeys {
		m.evict(now)
	}
	m.kept[swap.Key] = kept{swap.New, now.Add(swap.TTL)}
	return true
}

func (m *model) evict(now time.Time) {
	var victim string
	for key, k := range m.kept {
		if v, ok := m.kept[victim]; !ok || k.lapses.Before(v.lapses) {
			victim = key
		}
	}
	if now.Before(m.kept[victim].lapses) {
		m.evicted++
	} else {
		m.lapsed++
	}
	delete(m.kept, victim)
}

// Swap by swap, the store does what the model does: it also drops the same records.
func TestAgainstAModel(t *testing.T) {
	for seed := range uint64(16 / scale) {
		random := rand.New(rand.NewPCG(seed, 0))
		maxKeys := 1 + random.IntN(300)
		s, m, now := &memory.Store{MaxKeys: maxKeys}, &model{maxKeys: maxKeys, kept: map[string]kept{}}, epoch
		keys := make([]string, 2*maxKeys)
		for i := range keys {
			keys[i] = strconv.Itoa(i)
		}
		for step := range 5000 {
			now = now.Add(time.Duration(random.IntN(10_000_000)))
			key := keys[random.IntN(len(keys))]
			// Instants to lapse at are all different, so that there is one right victim.
			swap := swapOf(key, m.load(now, key).Version, strings.Repeat(key, random.IntN(20)), time.Duration(1+random.IntN(1_000_000))*10_000+time.Duration(step)-now.Sub(epoch)%10_000)
			swap.TTL = max(swap.TTL, 1)
			switch random.IntN(10) {
			case 0:
				swap.Old = storage.NewVersion()
			case 1:
				swap.New, swap.TTL = storage.Record{}, 0
			}
			_, swapped, err := s.CompareAndSwapAt(ctx, now, swap)
			require.NoError(t, err)
			require.Equal(t, m.swap(now, swap), swapped, "seed %d step %d", seed, step)
			if step%50 == 0 {
				require.Equal(t, memory.Stats{Keys: len(m.kept), Evicted: m.evicted, Lapsed: m.lapsed}, s.Stats(), "seed %d step %d", seed, step)
				records, err := s.LoadAt(ctx, now, keys...)
				require.NoError(t, err)
				for i, r := range records {
					if want := m.load(now, keys[i]); want.Version != r.Version || !slices.Equal(want.State, r.State) {
						t.Fatalf("seed %d step %d key %d: %v, want %v", seed, step, i, r, want)
					}
				}
			}
		}
		require.Positive(t, m.evicted)
		require.Positive(t, m.lapsed)
	}
}
