package algotest

import (
	"bytes"
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// random makes random arguments, often those at which a decision changes.
type random struct{ *rand.Rand }

// upTo returns a log-uniform number from 1 to n: all orders of magnitude are equally likely.
func (r random) upTo(n int64) int64 {
	if n <= 1 {
		return 1
	}
	size := r.IntN(bits.Len64(uint64(n))) + 1
	return min(n, 1<<(size-1)+r.Int64N(1<<(size-1)))
}

func (r random) chance(percent int) bool { return r.IntN(100) < percent }

func oneOf[T any](r random, values ...T) T { return values[r.IntN(len(values))] }

// limit returns a small limit, or one from the whole valid range.
func (r random) limit() algo.Limit {
	if r.chance(30) {
		return algo.Per(r.Int64N(20)+1, time.Duration(r.Int64N(100)+1))
	}
	return algo.Per(r.upTo(algo.MaxCount), time.Duration(r.upTo(math.MaxInt64)))
}

// similarLimit returns a limit to which l may change.
func (r random) similarLimit(l algo.Limit) algo.Limit {
	switch r.IntN(4) {
	case 0:
		return r.limit()
	case 1:
		return algo.Per(r.upTo(algo.MaxCount), l.Period)
	case 2:
		return algo.Per(max(1, l.Count/2), l.Period)
	}
	return algo.Per(min(algo.MaxCount, l.Count+r.upTo(l.Count)), l.Period)
}

// cost returns a cost. peek is the result of a peek.
func (r random) cost(peek algo.Result) int64 {
	left := peek.Available + peek.Refilled
	return max(1, oneOf(r, 1, left, left, left+1, left/2, r.upTo(peek.Limit), r.upTo(max(1, left)), peek.Limit))
}

// next returns the time of the next event after one with result last.
func (r random) next(now int64, last algo.Result, l algo.Limit, stepsBack bool) int64 {
	if stepsBack && r.chance(25) {
		return max(0, now-r.upTo(int64(l.Period)))
	}
	by := oneOf(r, 0, 0, 1, last.RetryAfter, last.NextRefill, last.NextRefill-1, last.ResetAfter-1, last.ResetAfter,
		time.Duration(r.upTo(int64(l.Period))), time.Duration(r.upTo(int64(l.Period))))
	return min(after(now, max(0, by)), algo.MaxInstant)
}

// damage returns a state with changed bytes, or random bytes.
func (r random) damage(state []byte) []byte {
	b := bytes.Clone(state)
	if len(b) == 0 || r.chance(20) {
		b = make([]byte, r.IntN(40))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if len(state) > 1 && r.chance(50) {
			b = append(state[:2:2], b...)
		}
		return b
	}
	for range r.IntN(4) + 1 {
		switch i := r.IntN(len(b)); r.IntN(3) {
		case 0:
			b[i] ^= 1 << r.IntN(8)
		case 1:
			b[i] = oneOf[byte](r, 0, 1, 0x7f, 0x80, 0xff)
		default:
			b[i] = byte(r.Uint32())
		}
	}
	return b
}
