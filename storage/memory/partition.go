package memory

import (
	"hash/maphash"
	"maps"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/storage/driver"
)

// partition holds the records of one rule. It has its own bound, so that keys of one rule never
// evict records of another rule.
type partition struct {
	maxKeys  int64
	shards   []shard
	shift    int // the upper 64-shift bits of a hash are the index of its shard
	counters counters

	evicting  sync.Mutex
	nextShard int // the shard that evicts next if the shard of the new record cannot; guarded by evicting
}

// counters count the records of a partition, and those that it has removed.
type counters struct{ keys, protected, evicted, expired atomic.Int64 }

// A partition has up to 64 shards of at least 64 records. With 64 shards, goroutines seldom wait
// for each other, and the shards take 16 KB.
const (
	maxShards    = 64
	keysPerShard = 64
)

func (p *partition) shardOf(h hash) *shard { return &p.shards[h.hi>>p.shift] }

// findPartition returns the partition of a rule, or nil.
func (s *Store) findPartition(rule string) *partition { return s.allPartitions()[rule] }

// allPartitions returns the partitions by rule. Nobody may modify the map.
func (s *Store) allPartitions() map[string]*partition {
	if all := s.partitions.Load(); all != nil {
		return *all
	}
	return nil
}

// createPartition returns the partition of a rule, and creates it if there is none.
func (s *Store) createPartition(rule string) *partition {
	s.creating.Lock()
	defer s.creating.Unlock()
	if p := s.findPartition(rule); p != nil {
		return p
	}
	all := maps.Clone(s.allPartitions())
	if all == nil {
		all = make(map[string]*partition)
		for i := range s.locks {
			s.locks[i].number = i
		}
	}
	p := s.newPartition()
	all[strings.Clone(rule)] = p // rule may be part of a longer key
	s.partitions.Store(&all)
	return p
}

func (s *Store) newPartition() *partition {
	maxKeys := s.MaxKeys
	if maxKeys <= 0 {
		maxKeys = DefaultMaxKeys
	}
	shardBits := bits.Len(uint(min(max(maxKeys/keysPerShard, 1), maxShards))) - 1
	p := &partition{maxKeys: int64(maxKeys), shards: make([]shard, 1<<shardBits), shift: 64 - shardBits}
	for i := range p.shards {
		sh := &p.shards[i]
		sh.partition, sh.table.counters, sh.lock = p, &p.counters, &s.locks[i]
	}
	return p
}

// location is where the record of a key is: its shard and 104 bits of two hashes. These are hashes of the group and the user's
// key, so that no text is built for a decision, or of the whole text if that is no driver.RuleKey or has parts that were cut.
type location struct {
	shard *shard
	hash
	number uint32 // of the entry in its table during decide; 0 if there is none
}

// hash identifies a key in a partition.
type hash struct {
	hi   uint64 // the upper bits select the shard, the lower bits the home slot in the index
	lo   uint32
	tail uint8
}

var (
	keySeedHi, keySeedLo     = maphash.MakeSeed(), maphash.MakeSeed()
	groupSeedHi, groupSeedLo = maphash.MakeSeed(), maphash.MakeSeed()
	textSeedHi, textSeedLo   = maphash.MakeSeed(), maphash.MakeSeed()
)

// locate returns the location of a key. The key may be any string.
func (s *Store) locate(key string) location {
	k, ok := driver.ParseKey(key)
	if ok {
		return s.locateHash(k.Rule, hashOfParts(&k))
	}
	return s.locateHash(k.Rule, newHash(maphash.String(textSeedHi, key), maphash.String(textSeedLo, key)))
}

// hashOfParts returns the hash of a key of which no part is cut in the text.
func hashOfParts(k *driver.RuleKey) hash {
	hi, lo := maphash.String(keySeedHi, k.Key), maphash.String(keySeedLo, k.Key)
	if k.Group != "" {
		hi ^= maphash.String(groupSeedHi, k.Group)
		lo ^= maphash.String(groupSeedLo, k.Group)
	}
	return newHash(hi, lo)
}

func newHash(hi, lo uint64) hash { return hash{hi, uint32(lo), uint8(lo >> 32)} }

// locateHash returns the location of the key of a rule with this hash. It creates the partition of the rule if there is none.
func (s *Store) locateHash(rule string, h hash) location {
	p := s.findPartition(rule)
	if p == nil {
		p = s.createPartition(rule)
	}
	return location{shard: p.shardOf(h), hash: h}
}
