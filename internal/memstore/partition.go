package memstore

import (
	"math"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
)

// partition holds the records of one rule. It has its own bound, so that keys of one rule never
// evict records of another rule.
type partition struct {
	shards      []shard
	firstExpiry []atomic.Int64 // of each shard; see shard.firstExpiry
	shift       int            // the upper 64-shift bits of a hash are the index of its shard

	keys      atomic.Int64 // the number of records
	protected atomic.Int64 // the number of protected records

	evicting  sync.Mutex
	nextShard int // the shard that evicts next if the shard of the new record cannot; guarded by evicting
}

// A partition has up to 64 shards of at least 64 records. With 64 shards, goroutines seldom wait
// for each other, and the shards take 20 KB.
const (
	maxShards    = 64
	keysPerShard = 64
)

func (p *partition) shardOf(h hash) *shard { return &p.shards[h.hi>>p.shift] }

// partitionOf returns the partition of a rule. It creates the partition if there is none.
func (s *Store) partitionOf(rule string) *partition {
	if p, ok := s.partitions.Load(rule); ok {
		return p.(*partition)
	}
	p, _ := s.partitions.LoadOrStore(strings.Clone(rule), s.newPartition()) // rule may be part of a longer key
	return p.(*partition)
}

func (s *Store) newPartition() *partition {
	shardBits := bits.Len64(uint64(min(max(s.maxKeys()/keysPerShard, 1), maxShards))) - 1
	count := 1 << shardBits
	p := &partition{shards: make([]shard, count), firstExpiry: make([]atomic.Int64, count), shift: 64 - shardBits}
	lockOrder := s.shards.Add(maxShards)
	for i := range p.shards {
		s := &p.shards[i]
		s.partition, s.firstExpiry, s.lockOrder = p, &p.firstExpiry[i], lockOrder+uint64(i)
	}
	return p
}

// each calls do with each partition until do returns false.
func (s *Store) each(do func(p *partition) bool) {
	s.partitions.Range(func(_, p any) bool { return do(p.(*partition)) })
}

// maxProtected returns how many records of a partition may be protected: 7/8. The rest is for new
// keys. Otherwise, if all records were protected, each new key would evict the one before it.
func maxProtected(maxKeys int64) int64 {
	if maxKeys == math.MaxInt64 {
		return maxKeys
	}
	return maxKeys - max(1, maxKeys/8)
}
