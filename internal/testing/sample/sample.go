// Package sample makes random arguments of policies for tests, often those at which a decision changes.
package sample

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Brief reports whether searches should be short: with testing.Short, and under the race
// detector, which is slow and finds nothing in pure functions.
func Brief() bool { return RaceEnabled || testing.Short() }

// Long reports whether searches should be long: if the environment variable SLUICE_LONG_LAWS is not empty.
func Long() bool { return os.Getenv("SLUICE_LONG_LAWS") != "" }

// Source is a source of random arguments.
type Source struct{ *rand.Rand }

// New returns the source of a seed.
func New(seed1, seed2 uint64) Source { return Source{rand.New(rand.NewPCG(seed1, seed2))} }

// UpTo returns a log-uniform number from 1 to n: all orders of magnitude are equally likely.
func (r Source) UpTo(n int64) int64 {
	if n <= 1 {
		return 1
	}
	size := r.IntN(bits.Len64(uint64(n))) + 1
	return min(n, 1<<(size-1)+r.Int64N(1<<(size-1)))
}

// Chance returns true that many times in 100.
func (r Source) Chance(percent int) bool { return r.IntN(100) < percent }

// OneOf returns one of the values.
func OneOf[T any](r Source, values ...T) T { return values[r.IntN(len(values))] }

// Limit returns a small limit, or one from the whole valid range.
func (r Source) Limit() algo.Limit {
	if r.Chance(30) {
		return algo.Per(r.Int64N(20)+1, time.Duration(r.Int64N(100)+1)*time.Microsecond)
	}
	return algo.Per(r.UpTo(algo.MaxCount), time.Duration(r.UpTo(algo.MaxPeriod.Microseconds()))*time.Microsecond)
}

// SimilarLimit returns a limit to which l may change.
func (r Source) SimilarLimit(l algo.Limit) algo.Limit {
	switch r.IntN(4) {
	case 0:
		return r.Limit()
	case 1:
		return algo.Per(r.UpTo(algo.MaxCount), l.Period)
	case 2:
		return algo.Per(max(1, l.Count/2), l.Period)
	}
	return algo.Per(min(algo.MaxCount, l.Count+r.UpTo(l.Count)), l.Period)
}

// Cost returns a cost. peek is the result of a peek.
func (r Source) Cost(peek algo.Result) int64 {
	left := peek.Available + peek.Refilled
	return max(1, OneOf(r, 1, left, left, left+1, left/2, r.UpTo(peek.Limit), r.UpTo(left), peek.Limit, peek.Limit+1))
}

// Time returns the time of the next call after one with result last, in microseconds. It is before now only if stepsBack is
// true.
func (r Source) Time(now int64, last algo.Result, period time.Duration, stepsBack bool) int64 {
	if stepsBack && r.Chance(25) {
		return max(0, now-OneOf(r, 1, r.UpTo(period.Microseconds()), r.UpTo(period.Microseconds()), r.UpTo(now)))
	}
	retry, refill, reset := last.RetryAfter.Microseconds(), last.NextRefill.Microseconds(), last.ResetAfter.Microseconds()
	by := OneOf(r, 0, 0, 1, retry, retry-1, refill, refill-1, reset-1, reset, r.UpTo(period.Microseconds()), r.UpTo(period.Microseconds()))
	return now + min(max(0, by), algo.MaxInstant-now)
}

// Damage returns a state with changed, missing or further bytes, random bytes, or zeros.
func (r Source) Damage(state []byte) []byte {
	b := bytes.Clone(state)
	if len(b) == 0 || r.Chance(20) {
		b = make([]byte, OneOf(r, r.IntN(6), r.IntN(40)))
		if r.Chance(50) {
			for i := range b {
				b[i] = byte(r.Uint32())
			}
		}
		if len(state) > 1 && r.Chance(50) {
			b = append(state[:2:2], b...)
		}
		return b
	}
	for range r.IntN(4) + 1 {
		switch i := r.IntN(len(b)); r.IntN(5) {
		case 0:
			b[i] ^= 1 << r.IntN(8)
		case 1:
			b[i] = OneOf[byte](r, 0, 1, 0x7f, 0x80, 0xff)
		case 2:
			b[i] = byte(r.Uint32())
		case 3:
			return append(b, byte(r.IntN(3)))
		default:
			return b[:i]
		}
	}
	return b
}
