// Package memory keeps the states of limits in the memory of this process.
//
// The zero [Store] is ready for use. It forgets everything when the process ends, and
// no other process shares it. Use it for one process, for tests, and as the stand-in
// while a database is away.
//
// # Bounded
//
// A store holds at most MaxKeys records of each rule. If there are more, it evicts one
// of the same rule:
//
//  1. a record that has lapsed, because it means no more than no record at all;
//  2. else a record that has used less than half of its limit. New ones go in turn, and
//     one that was written again gets a second chance;
//  3. else the record with the lowest [storage.Priority], and of those the one that
//     lapses first. These records are protected. If more than 7/8 of the store is
//     protected, such a record is evicted before those of 2, so that new keys always find
//     some room.
//
// Two promises follow. They hold for every algorithm and for stacks, and are tested:
//
//   - Keys of one rule never evict a key of another. A rule with a single key stays
//     within its bound, whatever else happens.
//   - A key that has used up its limit is not forgotten because many other keys
//     arrive that use little of theirs.
//
// One attack remains. An attacker who spends the whole limit of 7/8 of MaxKeys different
// keys makes the store forget exhausted keys, his own among them. The remedies are a MaxKeys
// above the number of keys that can be exhausted at once, and a second rule by something
// that the attacker cannot make up, such as the address.
//
// [Stats] counts the records that were evicted before they lapsed. If that number grows,
// MaxKeys is too small, or someone is making up keys.
//
// A record takes about 64 bytes for a state of up to 25 bytes, however long its
// key, and a longer state up to half as much again as its length more. The
// garbage collector has nothing to look at in them. A rule takes up to 22 KB besides, for
// as long as the store is in use: the number of rules and namespaces is for the program to
// bound.
//
// # Keys
//
// The store keeps only a name for each key: the rule, and 104 bits of two 64-bit hashes
// under seeds drawn anew in each process. In a store of a million records, a new key is
// taken for another one with a probability of 2^-84. Nobody outside the process can
// prepare such keys.
//
// # Time
//
// Limiters decide by [Store.Update], in which records lapse by the time of the decision. So
// limits on virtual time are exact. Load, CompareAndSwap and Purge read a clock,
// [Store.Now]. A lapsed record is absent at once. Its memory is used again when there is
// need, or freed by [Store.Sweep]. For the store, time stands still before 1970 and
// after 2262.
package memory
