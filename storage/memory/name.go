package memory

import "hash/maphash"

// name stands for a key: two hashes of it, which no one outside this process can
// predict.
type name struct{ hi, lo uint64 }

var seedHi, seedLo = maphash.MakeSeed(), maphash.MakeSeed()

func nameOf(key string) name {
	return name{maphash.String(seedHi, key), maphash.String(seedLo, key)}
}

// shard is the shard that a key belongs to. It goes by bits that the table does not use.
func (n name) shard() int { return int(n.hi >> (64 - shardBits)) }
