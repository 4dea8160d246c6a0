// Package memory stores limits in the memory of this process. The zero [Store] is ready for use.
//
// # Eviction
//
// A store holds at most MaxKeys records of each rule (sluice.Rule). If a rule has more, the store evicts one of them:
//
//  1. An expired record.
//  2. Otherwise a record that has used less than half of its limit. The store visits these in turn (clock algorithm), and skips a
//     record once if it was written again.
//  3. Otherwise the record with the lowest [storage.Priority]. Among equals, the one that expires first.
//
// If more than 7/8 of MaxKeys records have used at least half of their limit, step 3 comes before step 2.
//
// So a flood of keys that use little does not evict an exhausted key. But an attacker who exhausts more than 7/8 of MaxKeys keys
// evicts exhausted keys. Set MaxKeys to at least 8/7 of the keys that can be exhausted at the same time, or add a rule whose key
// the attacker cannot choose, such as the address. If [Stats].Evicted grows, MaxKeys is too small, or someone invents keys.
//
// # Memory
//
// A record takes about 64 bytes, however long its key is. A state above 25 bytes takes up to 1.5 times its length in addition.
// Each rule takes up to 19 KB, which is never freed. So bound the number of rules, of namespaces, and of the kinds of policies
// that a PolicyFor returns (compose.Kind).
//
// The store keeps a 104-bit hash of each key. Among a million records, a new key collides with a probability of 2^-84.
package memory
