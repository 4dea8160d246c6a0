package memstore

import (
	"hash/maphash"
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
// for each other, and the shards take 20 KB.
const (
	maxShards    = 64
	keysPerShard = 64
)

func (p *partition) shardOf(h hash) *shard { return &p.shards[h.hi>>p.shift] }

// partitionOf returns the partition of a rule. It creates the partition if there is none.
func (s *Store) partitionOf(rule string) *partition {
	p, ok := s.partitions.Load(rule)
	if !ok {
		p, _ = s.partitions.LoadOrStore(strings.Clone(rule), s.newPartition()) // rule may be part of a longer key
	}
	return p.(*partition)
}

func (s *Store) newPartition() *partition {
	maxKeys := s.MaxKeys
	if maxKeys <= 0 {
		maxKeys = DefaultMaxKeys
	}
	shardBits := bits.Len(uint(min(max(maxKeys/keysPerShard, 1), maxShards))) - 1
	p := &partition{maxKeys: int64(maxKeys), shards: make([]shard, 1<<shardBits), shift: 64 - shardBits}
	lockOrder := s.shards.Add(maxShards)
	for i := range p.shards {
		sh := &p.shards[i]
		sh.table.counters, sh.lockOrder = &p.counters, lockOrder+uint64(i)
	}
	return p
}

// Name identifies a key in one store. It consists of the partition of the key's rule and 104 bits
// of two hashes of the key. The store keeps only the hashes.
type Name struct {
	partition *partition
	hash
}

// hash identifies a key in a partition.
type hash struct {
	hi   uint64 // the upper bits select the shard, the lower bits the home slot in the index
	lo   uint32
	tail uint8
}

// Prefix is the hashed prefix of the keys of one rule.
type Prefix struct {
	partition *partition
	hi, lo    uint64
}

var (
	prefixSeedHi, prefixSeedLo = maphash.MakeSeed(), maphash.MakeSeed()
	lastSeedHi, lastSeedLo     = maphash.MakeSeed(), maphash.MakeSeed()
)

// CutKey is driver.CutKey with the prefix in hashed form. The key may be any string.
func CutKey(s *Store, key string) (p Prefix, last string) {
	prefix, rule, last := driver.CutKey(key)
	return Prefix{s.partitionOf(rule), maphash.String(prefixSeedHi, prefix), maphash.String(prefixSeedLo, prefix)}, last
}

// NameOf returns the name of key. The key may be any string.
func NameOf(s *Store, key string) Name {
	prefix, last := CutKey(s, key)
	return prefix.Name(last)
}

// Name returns the name of the key with this prefix and the last part last.
func (p Prefix) Name(last string) Name {
	hi := p.hi ^ maphash.String(lastSeedHi, last)
	lo := p.lo ^ maphash.String(lastSeedLo, last)
	return Name{p.partition, hash{hi, uint32(lo), uint8(lo >> 32)}}
}

func (n Name) shard() *shard { return n.partition.shardOf(n.hash) }
