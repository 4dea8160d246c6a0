package memstore_test

// These tests promise about the store of package memory:
//   - it obeys the laws of package storagetest also when it is full;
//   - it holds at most MaxKeys records of a rule, and evicts exactly the record that the comment of package memory names;
//   - keys of one rule never evict keys of another rule, and a flood does not evict an exhausted key;
//   - decisions in place do not allocate, and Sweep frees the memory of expired records.

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/memstore"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// increment adds one to a count in one byte, in place.
func increment(s *memstore.Store, now time.Time, n memstore.Name, ttl time.Duration) {
	var c memstore.Cell
	c.Lock(memstore.Instant(now), n)
	defer c.Unlock()
	next := append(c.Buffer(), one(c.State()))
	c.Keep(next)
	c.Put(next, ttl, storage.UsedLittle)
}

func one(state []byte) byte {
	if state == nil {
		return 1
	}
	return state[0] + 1
}

func load(t *testing.T, s *memstore.Store, now time.Time, key string) storage.Record {
	t.Helper()
	records, err := at(s, now).Load(ctx, key)
	require.NoError(t, err)
	return records[0]
}

func TestCellReadsAndWritesAnOrdinaryRecord(t *testing.T) {
	s := new(memstore.Store)
	key := driver.Key("", "rule", "ann")
	name := memstore.NameOf(s, key)
	for i := range 3 {
		before := load(t, s, epoch, key)
		increment(s, epoch, name, time.Minute)
		after := load(t, s, epoch, key)
		require.Equal(t, []byte{byte(i + 1)}, after.State)
		require.NotEqual(t, before.Version, after.Version, "a swap with the earlier version must fail")
	}
	require.Zero(t, load(t, s, epoch.Add(time.Minute), key))
	increment(s, epoch.Add(time.Minute), name, time.Second)
	require.Equal(t, []byte{1}, load(t, s, epoch.Add(time.Minute), key).State, "an expired state is absent")
	require.Equal(t, memstore.Stats{Keys: 1}, s.Stats())
	require.Equal(t, 1, s.Sweep(epoch.Add(61*time.Second), 10))
}

func TestConcurrentCellsUpdatesAndSwapsLoseNothing(t *testing.T) {
	const writers, times = 8, 300
	s, sum := at(new(memstore.Store), epoch), 0
	full := at(&memstore.Store{MaxKeys: 10}, epoch)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(w)))
			for range times {
				if err := errors.Join(add(s, w, "a", "b"), add(full, w, strconv.Itoa(random.IntN(40)), "x")); err != nil {
					t.Error(err)
				}
				if random.IntN(20) == 0 {
					full.Sweep(epoch.Add(2*time.Hour), 3)
				}
				if keys := full.Stats().Keys; keys > 10+2*writers {
					t.Errorf("%d keys", keys)
				}
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, full.Stats().Keys, 10)
	full.Sweep(epoch.Add(2*time.Hour), math.MaxInt)
	require.Zero(t, full.Stats().Keys)
	for _, key := range []string{"a", "b"} {
		state := load(t, s, epoch, key).State
		sum += int(state[0]) | int(state[1])<<8
	}
	require.Equal(t, 2*writers*times, sum)
}

// add adds one to the counts of both keys with cells, an update or a swap.
func add(s *memstore.Store, way int, keys ...string) error {
	switch way % 3 {
	case 0:
		for _, key := range keys {
			var c memstore.Cell
			c.Lock(memstore.Instant(epoch), memstore.NameOf(s, key))
			c.Put(plusOne(c.State()), time.Hour, storage.UsedLittle)
			c.Unlock()
		}
	case 1:
		return s.Update(ctx, epoch, keys, decider(func(found [][]byte, next []driver.Change) error {
			for i, state := range found {
				next[i] = driver.Change{Verb: driver.Put, State: plusOne(state), TTL: time.Hour}
			}
			return nil
		}))
	default:
		for swapped := false; !swapped; {
			records, err := s.Load(ctx, keys...)
			if err != nil {
				return err
			}
			var swaps []storage.Swap
			for i, r := range records {
				swaps = append(swaps, swapOf(keys[i], r.Version, string(plusOne(r.State)), time.Hour))
			}
			if _, swapped, err = s.CompareAndSwap(ctx, swaps...); err != nil {
				return err
			}
		}
	}
	return nil
}

func plusOne(state []byte) []byte {
	if state == nil {
		return []byte{1, 0}
	}
	n := int(state[0]) | int(state[1])<<8 + 1
	return []byte{byte(n), byte(n >> 8)}
}

func TestCellDoesNotAllocate(t *testing.T) {
	s := new(memstore.Store)
	name := memstore.NameOf(s, "ann")
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		increment(s, epoch, name, time.Minute)
	}))
}

func TestStatesOfAllLengthsAreStored(t *testing.T) {
	s := new(memstore.Store)
	name := memstore.NameOf(s, "ann")
	for i, want := range []string{"first", "", "a second one", strings.Repeat("long", 10), "short", strings.Repeat("l", 26), strings.Repeat("s", 25)} {
		now := epoch.Add(time.Duration(i) * time.Second)
		var c memstore.Cell
		c.Lock(memstore.Instant(now), name)
		require.Equal(t, i == 0, c.State() == nil)
		c.Put([]byte(want), time.Minute, storage.UsedLittle)
		require.Equal(t, want, string(c.State()))
		c.Unlock()
		require.Equal(t, want, string(load(t, s, now, "ann").State))
	}
	increment(s, epoch.Add(time.Hour), name, time.Minute)
	require.Equal(t, []byte{1}, load(t, s, epoch.Add(time.Hour), "ann").State, "an expired state is overwritten")
}

func TestInstantIsNanosecondsSince1970(t *testing.T) {
	for _, c := range []struct {
		at   time.Time
		want int64
	}{
		{time.Time{}, 0},
		{time.Unix(0, -1), 0},
		{time.Unix(0, 0), 0},
		{time.Unix(0, 1), 1},
		{time.Unix(1e9, 7), 1e18 + 7},
		{time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64 - 2},
	} {
		require.Equal(t, c.want, memstore.Instant(c.at), c.at)
	}
	s := &memstore.Store{Clock: func() time.Time { return epoch }}
	require.Equal(t, epoch.UnixNano(), memstore.InstantOf(s))
	s.Clock = nil
	before := s.Now()
	require.GreaterOrEqual(t, memstore.InstantOf(s), memstore.Instant(before))
	require.GreaterOrEqual(t, memstore.Instant(s.Now()), memstore.Instant(before))
}
