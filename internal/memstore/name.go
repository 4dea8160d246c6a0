package memstore

import (
	"hash/maphash"

	"github.com/sluice-go/sluice/storage/driver"
)

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

// Prefix returns the prefix of key, as driver.CutKey returns it, in hashed form.
func (s *Store) Prefix(key string) Prefix {
	return s.partitionOf(driver.RuleOfKey(key)).prefix(key)
}

func (p *partition) prefix(key string) Prefix {
	prefix, _ := driver.CutKey(key)
	return Prefix{p, maphash.String(prefixSeedHi, prefix), maphash.String(prefixSeedLo, prefix)}
}

// Name returns the name of the key with this prefix and the last part last.
func (p Prefix) Name(last string) Name {
	hi := p.hi ^ maphash.String(lastSeedHi, last)
	lo := p.lo ^ maphash.String(lastSeedLo, last)
	return Name{p.partition, hash{hi, uint32(lo), uint8(lo >> 32)}}
}

// Name returns the name of key. The key may be any string.
func (s *Store) Name(key string) Name {
	_, last := driver.CutKey(key)
	return s.Prefix(key).Name(last)
}

// existingName returns the name of key without creating a partition. ok is false if the key's rule
// has no partition.
func (s *Store) existingName(key string) (n Name, ok bool) {
	p, ok := s.partitions.Load(driver.RuleOfKey(key))
	if !ok {
		return Name{}, false
	}
	_, last := driver.CutKey(key)
	return p.(*partition).prefix(key).Name(last), true
}

func (n Name) shard() *shard { return n.partition.shardOf(n.hash) }
