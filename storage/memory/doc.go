// Package memory stores the states of limits in the memory of this process.
//
// The zero [Store] is ready for use. It loses everything when the process ends, and other
// processes do not share it. Use it for one process, for tests, and as a fallback while a database
// is unavailable.
//
// # Bounded
//
// A store holds at most MaxKeys records of each rule of a limiter (sluice.Rule). When a rule has
// more, the store evicts a record of the same rule:
//
//  1. An expired record, because it has the same meaning as no record.
//  2. If none has expired: a record that has used less than half of its limit. The store visits
//     these records in turn (clock algorithm). It skips a record once if the record was written
//     again since the last visit.
//  3. If there is none of these either: the record with the lowest [storage.Priority]. Among equal
//     priorities, the record that expires first.
//
// The records of step 3 have used at least half of their limit and are protected. If more than 7/8
// of MaxKeys records are protected, step 3 comes before step 2, so that new keys always find some
// space.
//
// The store makes two promises:
//
//   - A key of one rule never evicts a key of another rule.
//   - A key that has used up its limit is not evicted by a flood of keys that use little of theirs.
//
// One attack remains. If an attacker uses up the limits of more than 7/8 of MaxKeys different keys,
// the store evicts exhausted keys, including his own. Set MaxKeys to at least 8/7 of the number of
// keys that can be exhausted at the same time. Or add a second rule whose key the attacker cannot
// choose, such as the address.
//
// [Stats] counts the records that were evicted before they expired. If that number grows, MaxKeys
// is too small, or someone invents keys.
//
// A record with a state of up to 25 bytes takes about 64 bytes, however long its key is. A longer
// state takes additional memory, up to 1.5 times its length. The garbage collector does not scan
// records. Each rule also takes up to 22 KB, and up to 24 KB more if its states are longer, which the store never frees. So the program must bound
// the number of rules and of namespaces (sluice.Options.Namespace).
//
// # Keys
//
// The store does not keep keys. It keeps the rule and a 104-bit hash of each key. The seeds of
// the hash are random in each process, so nobody outside of the process can construct collisions.
// In a store of a million records, a new key collides with another one with a probability of 2^-84.
//
// # Time
//
// Records expire by the clock of the store. A limiter without a Clock of its own takes its time from that clock too. If a
// limiter has a Clock, a record also exists until its TTL has passed by that clock. So limits are exact with a fake
// clock too. An expired record is absent at once. Its memory is used for new records of the rule, and Purge can
// free it. For the store, all times before 1970 are equal, and so are all times after 2262.
//
// If Store.Clock is nil, Now returns the time of the wall clock at its first call, plus the time that
// has passed since then by the monotonic clock. So it ignores later changes of the wall clock; see
// [Store.Now].
package memory
