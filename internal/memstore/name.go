package memstore

import (
	"hash/maphash"

	"github.com/sluice-go/sluice/storage/driver"
)

// Name stands for a key in one store: the partition of its rule, and 104 bits of two hashes
// of the key that no one outside this process can predict. Only the hashes are kept.
type Name struct {
	partition *partition
	hash
}

// hash is what an entry keeps of its key, however long that is.
type hash struct {
	hi   uint64 // its upper bits choose the shard, its lower ones the home in the index
	lo   uint32
	tail uint8
}

// Prefix is what the keys of one rule begin with, hashed once.
type Prefix struct {
	partition *partition
	hi, lo    uint64
}

// The seeds of what precedes the last part of a key, and of that part.
var (
	prefixHi, prefixLo = maphash.MakeSeed(), maphash.MakeSeed()
	lastHi, lastLo     = maphash.MakeSeed(), maphash.MakeSeed()
)

// Prefix returns the prefix that a key has, as driver.CutKey cuts it off.
func (s *Store) Prefix(key string) Prefix {
	return prefixOf(s.partitionOf(driver.RuleOfKey(key)), key)
}

func prefixOf(p *partition, key string) Prefix {
	prefix, _ := driver.CutKey(key)
	return Prefix{p, maphash.String(prefixHi, prefix), maphash.String(prefixLo, prefix)}
}

// Name returns the name of the key that has this prefix and ends in last.
func (p Prefix) Name(last string) Name {
	hi := p.hi ^ maphash.String(lastHi, last)
	lo := p.lo ^ maphash.String(lastLo, last)
	return Name{p.partition, hash{hi, uint32(lo), uint8(lo >> 32)}}
}

// Name returns the name of any key.
func (s *Store) Name(key string) Name {
	_, last := driver.CutKey(key)
	return s.Prefix(key).Name(last)
}

// find returns the name of a key, unless the store never had a record of its rule.
func (s *Store) find(key string) (n Name, ok bool) {
	p, ok := s.partitions.Load(driver.RuleOfKey(key))
	if !ok {
		return Name{}, false
	}
	_, last := driver.CutKey(key)
	return prefixOf(p.(*partition), key).Name(last), true
}

func (n Name) shard() *shard { return &n.partition.shards[n.hi>>n.partition.shift] }
