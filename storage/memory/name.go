package memory

import (
	"hash/maphash"

	"github.com/sluice-go/sluice/storage"
)

// Name stands for a key: 112 bits of two hashes of it that no one outside this
// process can predict. It is what an entry keeps of its key, however long that is.
type Name struct {
	hi   uint64 // its upper bits choose the shard, its lower ones the home in the index
	lo   uint32
	tail uint16
}

// Prefix is the part that many keys begin with, hashed once.
type Prefix struct{ hi, lo uint64 }

// The seeds of what precedes the last part of a key, and of that part.
var (
	prefixHi, prefixLo = maphash.MakeSeed(), maphash.MakeSeed()
	lastHi, lastLo     = maphash.MakeSeed(), maphash.MakeSeed()
)

// PrefixOf hashes a prefix, as storage.CutKey cuts it off.
func PrefixOf(prefix string) Prefix {
	return Prefix{maphash.String(prefixHi, prefix), maphash.String(prefixLo, prefix)}
}

// Name is the name of the key that has this prefix and ends in last.
func (p Prefix) Name(last string) Name {
	hi := p.hi ^ maphash.String(lastHi, last)
	lo := p.lo ^ maphash.String(lastLo, last)
	return Name{hi, uint32(lo), uint16(lo >> 32)}
}

// NameOf is the name of any key.
func NameOf(key string) Name {
	prefix, last := storage.CutKey(key)
	return PrefixOf(prefix).Name(last)
}

// shard is the shard that a key belongs to.
func (n Name) shard() int { return int(n.hi >> (64 - shardBits)) }
