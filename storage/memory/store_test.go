package memory_test

// These tests promise about the store:
//   - it obeys the laws of package storagetest, also when it is full;
//   - it holds at most MaxKeys records of a rule, and evicts exactly the record that the comment of package memory names;
//   - keys of one rule never evict keys of another rule;
//   - transactions lock all their keys and do not allocate, a record takes little memory, and Purge frees that of expired records;
//   - a key in parts and its text name the same record. A panic of a clock releases all locks.

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/storagetest"
)

var (
	ctx   = context.Background()
	epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// virtual is a clock that only the test advances.
type virtual struct{ passed atomic.Int64 }

func (v *virtual) now() time.Time          { return epoch.Add(time.Duration(v.passed.Load())) }
func (v *virtual) advance(d time.Duration) { v.passed.Add(int64(d)) }

// at sets the clock of a store that no other goroutine uses.
func at(s *memory.Store, now time.Time) *memory.Store {
	s.Clock = func() time.Time { return now }
	return s
}

// harness returns a harness of the laws for a store with a clock.
func harness(s storage.Store, clock *virtual) storagetest.Harness {
	return storagetest.Harness{Store: s, Other: &memory.Store{Clock: clock.now}, Advance: clock.advance, Now: clock.now}
}

func TestLaws(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storagetest.Harness {
		clock := new(virtual)
		return harness(&memory.Store{Clock: clock.now}, clock)
	})
}

// The records that fill the store have expired at epoch, the time of the updates of the laws. So the store need not evict
// others. It has no Purge, which would count these records.
func TestLawsOfAFullStore(t *testing.T) {
	shortLived := make([]storage.Swap, 2000)
	for i := range shortLived {
		shortLived[i] = swapOf(fmt.Sprint("short lived ", i), 0, "", 1)
	}
	storagetest.Run(t, func(t *testing.T) storagetest.Harness {
		clock := new(virtual)
		clock.advance(-1)
		full := &memory.Store{MaxKeys: 2000, Clock: clock.now}
		_, swapped, err := full.CompareAndSwap(ctx, shortLived...)
		require.NoError(t, err)
		require.True(t, swapped)
		clock.advance(1)
		return harness(struct{ driver.Transactor }{full}, clock)
	})
}

func swapOf(key string, old storage.Version, state string, ttl time.Duration) storage.Swap {
	return storage.Swap{Key: key, Old: old, TTL: ttl, New: storage.Record{Version: storage.NewVersion(), State: []byte(state)}}
}

// put creates a record that has used little of its limit.
func put(t *testing.T, s *memory.Store, now time.Time, key string, ttl time.Duration) {
	t.Helper()
	used(t, s, now, key, ttl, storage.UsedLittle)
}

// used creates a record that has used some part of its limit.
func used(t *testing.T, s *memory.Store, now time.Time, key string, ttl time.Duration, p storage.Priority) {
	swap := swapOf(key, 0, key, ttl)
	swap.Priority = p
	if _, swapped, err := at(s, now).CompareAndSwap(ctx, swap); err != nil || !swapped {
		t.Helper()
		t.Fatalf("creating %q: swapped %v, error %v", key, swapped, err)
	}
}

// existing returns those of keys that have a record.
func existing(t *testing.T, s *memory.Store, now time.Time, keys ...string) (found []string) {
	t.Helper()
	records, _, err := at(s, now).Load(ctx, keys...)
	require.NoError(t, err)
	for i, r := range records {
		if r.Version != 0 {
			found = append(found, keys[i])
		}
	}
	return found
}

// If protected records fill their share of the store, a new key is still evicted only after the next
// new keys.
func TestNewKeyOutlivesTheNextNewKeys(t *testing.T) {
	const maxKeys = 1024
	s := &memory.Store{MaxKeys: maxKeys}
	for i := range maxKeys {
		used(t, s, epoch, fmt.Sprint("half ", i), time.Hour, storage.UsedHalf)
	}
	const next = maxKeys / 64 // an eighth of those that are not protected
	outlived := 0
	for i := range 4 * maxKeys {
		put(t, s, epoch, fmt.Sprint("new ", i), time.Second)
		require.NotEmpty(t, existing(t, s, epoch, fmt.Sprint("new ", i)))
		if i >= next {
			outlived += len(existing(t, s, epoch, fmt.Sprint("new ", i-next)))
		}
	}
	require.Greater(t, outlived, 4*maxKeys*9/10)
	require.Equal(t, maxKeys, s.Stats().Keys)
	remaining := 0
	for i := range maxKeys {
		remaining += len(existing(t, s, epoch, fmt.Sprint("half ", i)))
	}
	require.Equal(t, maxKeys-maxKeys/8, remaining)
}

func TestRecordInUseOutlivesAFlood(t *testing.T) {
	const maxKeys = 1000
	s := &memory.Store{MaxKeys: maxKeys}
	for i := range 10 * maxKeys {
		require.NoError(t, at(s, epoch).Transact(ctx, nil, putting("in use", "in use")))
		put(t, s, epoch, textOf(strconv.Itoa(i)), time.Hour)
		require.Len(t, existing(t, s, epoch, textOf("in use")), 1, "after %d keys", i)
	}
}

func TestStoreOfOneKeyKeepsTheNewest(t *testing.T) {
	s := &memory.Store{MaxKeys: 1}
	for i, p := range []storage.Priority{storage.UsedLittle, storage.UsedUp, storage.UsedUp, storage.UsedLittle, storage.UsedLittle} {
		used(t, s, epoch, strconv.Itoa(i), time.Hour, p)
		require.Equal(t, []string{strconv.Itoa(i)}, existing(t, s, epoch, "0", "1", "2", "3", "4"))
	}
}

func TestKeysOfOneRuleDoNotEvictKeysOfAnother(t *testing.T) {
	s := &memory.Store{MaxKeys: 10}
	everyone := keyOf("everyone", "").String()
	put(t, s, epoch, everyone, time.Second)
	for i := range 1000 {
		used(t, s, epoch, keyOf("customer", strings.Repeat("c", i)).String(), time.Hour, storage.UsedUp)
	}
	require.Equal(t, memory.Stats{Keys: 11, Evicted: 990}, s.Stats())
	require.Len(t, existing(t, s, epoch, everyone), 1)
}

func heapInUse() int {
	runtime.GC()
	runtime.GC() // frees what the first one left to finalizers and pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestLoadOfAbsentKeysTakesNoMemory(t *testing.T) {
	s, before := new(memory.Store), heapInUse()
	for i := range 1000 {
		require.Empty(t, existing(t, s, epoch, keyOf(fmt.Sprint("rule ", i), "ann").String()))
	}
	require.Less(t, heapInUse()-before, 1_000_000)
	runtime.KeepAlive(s)
}

// A record takes little memory, also if others were evicted for it.
func TestPurgeFreesTheMemoryOfExpiredRecords(t *testing.T) {
	const records = 30_000
	s, before := &memory.Store{MaxKeys: records}, heapInUse()
	for i := range 3 * records {
		put(t, s, epoch, keyOf("old rule", strconv.Itoa(i)).String(), time.Second)
	}
	perKey := float64(heapInUse()-before) / records
	require.Greater(t, perKey, 50.0)
	require.Less(t, perKey, 100.0)
	removed, err := at(s, epoch.Add(time.Second)).Purge(ctx, math.MaxInt)
	require.NoError(t, err)
	require.Equal(t, records, removed)
	require.Less(t, heapInUse()-before, 5*records)
	require.Equal(t, memory.Stats{Evicted: 2 * records, Expired: records}, s.Stats())
	put(t, s, epoch, keyOf("old rule", "1").String(), time.Second)
	require.Equal(t, memory.Stats{Keys: 1, Evicted: 2 * records, Expired: records}, s.Stats())
}

func TestSwapOfMoreThanMaxKeys(t *testing.T) {
	s := &memory.Store{MaxKeys: 1}
	put(t, s, epoch, textOf("old"), time.Minute)
	_, swapped, err := at(s, epoch).CompareAndSwap(ctx, swapOf(textOf("a"), 0, "a", 0), swapOf(textOf("b"), 0, "b", 0))
	require.NoError(t, err)
	require.True(t, swapped)
	require.Equal(t, memory.Stats{Keys: 1, Evicted: 2}, s.Stats())
	require.NoError(t, s.Transact(ctx, nil, putting("x", "c", "d")))
	require.Equal(t, memory.Stats{Keys: 1, Evicted: 4}, s.Stats())
}

func TestTimesFarFromNow(t *testing.T) {
	s, year := new(memory.Store), func(n int) time.Time { return time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC) }
	put(t, s, year(1900), "a", time.Hour)
	require.Equal(t, time.Hour, load(t, s, "a").TTL)
	put(t, s, year(2020), "b", time.Hour)
	require.Empty(t, existing(t, s, year(3000), "a", "b"))
	require.Equal(t, year(3000), s.Now())
}

func TestUpdateWithoutChangeCreatesNoRecord(t *testing.T) {
	s := new(memory.Store)
	for _, ok := range []bool{true, false} {
		require.NoError(t, s.Transact(ctx, nil, &driver.Update{Items: items("a"), Decide: func(time.Time) bool { return ok }}))
	}
	require.Zero(t, s.Stats())
}

// items returns items with these keys.
func items(keys ...string) (items []driver.Item) {
	for _, key := range keys {
		items = append(items, driver.Item{Key: keyOf("rule", key)})
	}
	return items
}

// textOf returns the text of the key of items.
func textOf(key string) string { return keyOf("rule", key).String() }

// keyOf returns the key of a rule.
func keyOf(rule, key string) driver.RuleKey {
	return driver.RuleKey{Rule: driver.Rule("", rule, "test"), Key: key}
}

// putting returns an update that puts the same state under all keys.
func putting(state string, keys ...string) *driver.Update {
	u := &driver.Update{Items: items(keys...)}
	u.Decide = func(time.Time) bool {
		for i := range u.Items {
			next := &u.Items[i].Next
			next.Verb, next.State, next.TTL = driver.Put, append(next.State, state...), time.Minute
		}
		return true
	}
	return u
}

// Each transaction adds a byte to the states of its keys. The last key is that of all transactions, so none of its bytes is lost.
func TestTransactionLocksAllItsKeys(t *testing.T) {
	const workers, each = 4, 200
	s := new(memory.Store)
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			u := &driver.Update{}
			for i := range 8 {
				u.Items = append(u.Items, items(fmt.Sprint("own ", worker, i))...)
			}
			u.Items = append(u.Items, items("common")...)
			u.Decide = func(time.Time) bool {
				for i := range u.Items {
					item := &u.Items[i]
					item.Next.Verb, item.Next.TTL = driver.Put, time.Hour
					item.Next.State = append(append(item.Next.State, item.Found.State...), 'x')
				}
				return true
			}
			for range each {
				assert.NoError(t, s.Transact(ctx, nil, u))
			}
		})
	}
	all.Wait()
	require.Len(t, load(t, s, textOf("common")).State, workers*each)
}

func TestTransactionDoesNotAllocate(t *testing.T) {
	for _, state := range []string{"state", strings.Repeat("a long state", 20)} {
		s, u := new(memory.Store), putting(state, "a", "b", "c")
		require.NoError(t, s.Transact(ctx, nil, u))
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			if s.Transact(ctx, nil, u) != nil {
				panic("the transaction failed")
			}
		}))
	}
}

// model has the records that a store has. It learns from the store which record was evicted, and checks the choice.
type model struct {
	maxKeys int
	records map[string]modelRecord
}

type modelRecord struct {
	expires  time.Time
	priority storage.Priority
}

// mayEvict reports whether victim may be evicted after created was created.
func (m *model) mayEvict(now time.Time, victim, created string) bool {
	v, protected, unprotected := m.records[victim], 0, 0
	if victim == created {
		return false
	}
	if !now.Before(v.expires) {
		return true
	}
	rank := func(r modelRecord) int64 { return int64(r.priority)<<60 + r.expires.UnixNano()/8 }
	least := true
	for key, k := range m.records {
		switch {
		case !now.Before(k.expires) && key != created:
			return false // expired records come first
		case k.priority < storage.UsedHalf:
			if key != created {
				unprotected++
			}
		default:
			protected++
			least = least && (key == created || rank(k) >= rank(v))
		}
	}
	tooManyProtected := protected > m.maxKeys-max(1, m.maxKeys/8)
	if unprotected > 0 && !tooManyProtected {
		return v.priority < storage.UsedHalf
	}
	return v.priority >= storage.UsedHalf && least || protected == 0
}

func TestEvictionsAgreeWithAModel(t *testing.T) {
	for _, maxKeys := range []int{45, 137} { // from 128 on, there are two shards
		random := rand.New(rand.NewPCG(1, uint64(maxKeys)))
		s, m, now := &memory.Store{MaxKeys: maxKeys}, &model{maxKeys, map[string]modelRecord{}}, epoch
		keys := make([]string, 2*maxKeys)
		for i := range keys {
			keys[i] = strconv.Itoa(i)
		}
		evicted := map[storage.Priority]int{}
		for step := range 3000 {
			now = now.Add(time.Duration(random.IntN(10_000_000)))
			key := keys[random.IntN(len(keys))]
			swap := swapOf(key, load(t, at(s, now), key).Version, strings.Repeat(key, random.IntN(20)), time.Duration(1+random.IntN(1_000_000))*10_000)
			swap.Priority = storage.Priority(random.IntN(int(storage.UsedUp + 1)))
			_, exists := m.records[key]
			if swap.Old != 0 && random.IntN(10) == 0 {
				swap.New = storage.Record{}
				delete(m.records, key)
			} else {
				m.records[key] = modelRecord{now.Add(swap.TTL), swap.Priority}
			}
			_, swapped, err := s.CompareAndSwap(ctx, swap)
			require.NoError(t, err)
			require.True(t, swapped)
			if !exists && len(m.records) > maxKeys {
				there := existing(t, s, epoch, keys...) // at epoch no record has expired
				for key := range m.records {
					if !slices.Contains(there, key) {
						require.True(t, m.mayEvict(now, key, swap.Key), "%d keys, step %d: %+v was evicted for %+v", maxKeys, step, m.records[key], swap)
						evicted[m.records[key].priority]++
						delete(m.records, key)
					}
				}
			}
			require.Len(t, m.records, s.Stats().Keys, "%d keys, step %d", maxKeys, step)
		}
		require.Len(t, evicted, int(storage.UsedUp+1))
	}
}

func TestClearedRuleHasRoomForNewKeys(t *testing.T) {
	const keys = 100
	s := &memory.Store{MaxKeys: keys}
	fill := func(rule string) {
		for i := range keys {
			used(t, s, epoch, keyOf(rule, strconv.Itoa(i)).String(), time.Hour, storage.UsedUp)
		}
	}
	fill("a")
	fill("b")
	require.Equal(t, keys, s.Clear(keyOf("a", "").Rule))
	require.Equal(t, memory.Stats{Keys: keys}, s.Stats())
	exhausted := keyOf("a", "exhausted").String()
	used(t, s, epoch, exhausted, time.Hour, storage.UsedUp)
	for i := range keys { // one more than there is room for
		put(t, s, epoch, keyOf("a", strconv.Itoa(i)).String(), time.Hour)
	}
	require.Equal(t, memory.Stats{Keys: 2 * keys, Evicted: 1}, s.Stats())
	require.Len(t, existing(t, s, epoch, exhausted), 1)
	require.Equal(t, 2*keys, s.Clear(""))
	require.Equal(t, memory.Stats{Evicted: 1}, s.Stats())
}

func load(t *testing.T, s *memory.Store, key string) storage.Record {
	t.Helper()
	records, _, err := s.Load(ctx, key)
	require.NoError(t, err)
	return records[0]
}

// A limiter decides with the parts of keys. Other code uses their text.
func TestKeysAreTheSameInPartsAndAsText(t *testing.T) {
	long, rule := strings.Repeat("k", 600), driver.Rule("shop", "per user", "gcra")
	for _, k := range []driver.RuleKey{
		{Rule: rule, Key: "ann"}, {Rule: rule}, {Rule: rule, Key: long}, {Rule: rule, Key: long[:470]}, {Rule: rule, Key: strings.Repeat("%", 100)}, {Rule: rule, Key: strings.Repeat("%", 200)},
		{Rule: rule, Key: "a:b{c}%\n\xff"}, {Rule: rule, Key: long[:160]}, {Rule: rule, Key: long[:180]},
		{Group: "tenant", Rule: rule, Key: "ann"}, {Group: long, Rule: rule, Key: "ann"}, {Group: "{a:b}", Rule: rule, Key: "ann"}, {Group: long[:90], Rule: rule, Key: "ann"}, {Group: "tenant", Rule: rule, Key: long},
		{Rule: driver.Rule("", long, "gcra"), Key: "ann"}, {Key: "ann"}, {Group: "tenant", Key: "ann"},
	} {
		s := new(memory.Store)
		_, swapped, err := s.CompareAndSwap(ctx, swapOf(k.String(), 0, "by text", 0))
		require.NoError(t, err)
		require.True(t, swapped)
		u := &driver.Update{Items: []driver.Item{{Key: k}}}
		u.Decide = func(time.Time) bool {
			require.Equal(t, "by text", string(u.Items[0].Found.State), "%.80v", k)
			u.Items[0].Next = driver.Change{Verb: driver.Put, State: []byte("by parts")}
			return true
		}
		require.NoError(t, s.Transact(ctx, nil, u))
		require.Equal(t, "by parts", string(load(t, s, k.String()).State))
		require.Equal(t, 1, s.Stats().Keys)
	}
}

func TestPanicOfAClockReleasesTheLocks(t *testing.T) {
	faulty := true
	s := &memory.Store{Clock: func() time.Time {
		if faulty {
			panic("the clock")
		}
		return epoch
	}}
	require.PanicsWithValue(t, "the clock", func() { _ = s.Transact(ctx, nil, putting("x", "a")) })
	faulty = false
	require.Panics(t, func() { _ = s.Transact(ctx, func() time.Time { panic("the clock of the limiter") }, putting("x", "a")) })
	require.NoError(t, s.Transact(ctx, nil, putting("x", "a"))) // would hang
}
