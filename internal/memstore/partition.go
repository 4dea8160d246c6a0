package memstore

import (
	"math"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
)

// partition holds the records of one rule. It has a bound of its own, so that no flood of
// keys of one rule evicts a record of another.
type partition struct {
	shards  []shard        // a key belongs to the shard that its name says
	nearest []atomic.Int64 // of each shard; see shard.nearest
	shift   int            // how far to shift a hash for the number of the shard

	keys      atomic.Int64 // records held
	protected atomic.Int64 // those of them that are protected: they have used at least half of their limit

	evicting sync.Mutex
	turn     int // the shard that is next to evict an unprotected record for another shard; under evicting
}

// partitionOf returns the partition of a rule, and makes it if there is none.
func (s *Store) partitionOf(rule string) *partition {
	if p, ok := s.partitions.Load(rule); ok {
		return p.(*partition)
	}
	p, _ := s.partitions.LoadOrStore(strings.Clone(rule), s.newPartition()) // Update must not keep a part of a key
	return p.(*partition)
}

// A partition has up to 64 shards, each of at least 64 records. Goroutines seldom meet in
// so many, and they take up 20 KB.
const (
	maxShards = 64
	perShard  = 64
)

func (s *Store) newPartition() *partition {
	count := bits.Len64(uint64(min(max(s.maxKeys()/perShard, 1), maxShards))) - 1
	p := &partition{shards: make([]shard, 1<<count), nearest: make([]atomic.Int64, 1<<count), shift: 64 - count}
	rank := s.ranks.Add(maxShards)
	for i := range p.shards {
		s := &p.shards[i]
		s.partition, s.nearest, s.rank = p, &p.nearest[i], rank+uint64(i)
	}
	return p
}

// each calls do with every partition until it returns false.
func (s *Store) each(do func(p *partition) bool) {
	s.partitions.Range(func(_, p any) bool { return do(p.(*partition)) })
}

// protectedShare is how much of a partition may be protected: 7 of 8. The rest is for new
// keys, so that a new key is not evicted by the next one even if all others are protected.
const protectedShare = 8

func maxProtected(maxKeys int64) int64 {
	if maxKeys == math.MaxInt64 {
		return maxKeys
	}
	return maxKeys - max(1, maxKeys/protectedShare)
}
