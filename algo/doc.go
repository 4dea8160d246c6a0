// Package algo is the vocabulary that every algorithm of sluice shares: the
// [Limit] that is promised, the [Result] that one decision gives, and the
// [Policy], an algorithm with its options bound.
//
// An algorithm is a pure function
//
//	state', result = Step(state, now, options)
//
// and nothing else decides. It reads no clock, keeps no memory and takes no
// lock, so a limiter in production, a table test with literal times and a
// replay of last week's access log run the very same code.
//
// Four algorithms come with sluice, one package each: gcra (the default),
// tokenbucket, fixedwindow and movingwindow. A fifth is a package of the same
// shape that passes the laws of package algotest. It works wherever Go takes a
// [Policy]; compose.ParsePolicy, and the files and commands that read specs, know
// the four.
//
// # Units, instants and ranges
//
// A request costs a whole number of units. Instants are whole nanoseconds since
// the Unix epoch, from 0 (1970) to [MaxInstant] (2116); time stands still
// outside of that range (see [Instant]). All arithmetic is exact on integers,
// in 128 bits where a product needs it: nothing drifts, and [Result.RetryAfter]
// is the very nanosecond.
package algo
