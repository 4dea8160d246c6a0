package algotest

import (
	"math/big"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Oracle returns how many whole units are left at now: Available + Refilled of a step. It
// computes them from all units taken until then. The result is negative if the key has a debt.
// now must not be before the last entry.
type Oracle func(log Log, now time.Time) int64

func ratio(a, b int64) *big.Rat    { return big.NewRat(a, b) }
func whole(a int64) *big.Rat       { return new(big.Rat).SetInt64(a) }
func plus(a, b *big.Rat) *big.Rat  { return new(big.Rat).Add(a, b) }
func minus(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func times(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func floor(a *big.Rat) *big.Int    { return new(big.Int).Div(a.Num(), a.Denom()) }
func nonNegative(a *big.Rat) *big.Rat {
	if a.Sign() < 0 {
		return new(big.Rat)
	}
	return a
}

// Bucket returns the oracle of gcra and of the token bucket with continuous refill: the units
// in use drain at limit.Count per limit.Period.
func Bucket(limit algo.Limit, burst int64) Oracle {
	return func(log Log, now time.Time) int64 {
		used, last := new(big.Rat), now
		drain := func(to time.Time) {
			gone := times(whole(int64(to.Sub(last))), ratio(limit.Count, int64(limit.Period)))
			used, last = nonNegative(minus(used, gone)), to
		}
		for i, e := range log.Entries {
			if i == 0 {
				last = e.At
			}
			drain(e.At)
			used = nonNegative(plus(used, whole(e.Units)))
		}
		drain(now)
		return floor(minus(whole(burst), used)).Int64()
	}
}

// IntervalBucket returns the oracle of the token bucket with interval refill: limit.Count
// tokens come back at the end of each limit.Period. The first one starts at the event that
// found the bucket full.
func IntervalBucket(limit algo.Limit, burst int64) Oracle {
	return func(log Log, now time.Time) int64 {
		var anchor time.Time
		used := new(big.Int)
		refill := func(to time.Time) {
			if used.Sign() == 0 {
				anchor = to
				return
			}
			n := int64(to.Sub(anchor)) / int64(limit.Period)
			back := new(big.Int).Mul(big.NewInt(n), big.NewInt(limit.Count))
			if back.Cmp(used) >= 0 {
				used, anchor = new(big.Int), to
				return
			}
			used.Sub(used, back)
			anchor = anchor.Add(time.Duration(n) * limit.Period)
		}
		for _, e := range log.Entries {
			refill(e.At)
			if used.Add(used, big.NewInt(e.Units)); used.Sign() < 0 {
				used.SetInt64(0)
			}
		}
		refill(now)
		return new(big.Int).Sub(big.NewInt(burst), used).Int64()
	}
}

// WindowFromFirst returns the oracle of the fixed window that opens at the first event that
// takes units.
func WindowFromFirst(limit algo.Limit) Oracle {
	return func(log Log, now time.Time) int64 {
		var opened time.Time
		used := new(big.Int)
		for _, e := range log.Entries {
			if used.Sign() == 0 || e.At.Sub(opened) >= limit.Period {
				opened = e.At
				used.SetInt64(0)
			}
			if used.Add(used, big.NewInt(e.Units)); used.Sign() < 0 {
				used.SetInt64(0)
			}
		}
		if now.Sub(opened) >= limit.Period {
			return limit.Count
		}
		return new(big.Int).Sub(big.NewInt(limit.Count), used).Int64()
	}
}

// WindowByClock returns the oracle of the fixed window that starts at the multiples of
// limit.Period since the Unix epoch, plus offset.
func WindowByClock(limit algo.Limit, offset time.Duration) Oracle {
	window := func(t time.Time) *big.Int {
		since := big.NewInt(t.UnixNano())
		since.Sub(since, big.NewInt(int64(offset)))
		return since.Div(since, big.NewInt(int64(limit.Period)))
	}
	return func(log Log, now time.Time) int64 {
		used := new(big.Int)
		for _, e := range log.Entries {
			if window(e.At).Cmp(window(now)) == 0 {
				used.Add(used, big.NewInt(e.Units))
			}
		}
		return new(big.Int).Sub(big.NewInt(limit.Count), used).Int64()
	}
}

// MovingWindow returns the oracle of the moving window with that many slots. The trailing slot
// counts in proportion to its overlap with the window, or in full if wholeSlots is true.
func MovingWindow(limit algo.Limit, slots int, wholeSlots bool) Oracle {
	n, w := int64(slots), int64(limit.Period)/int64(slots)
	if int64(limit.Period)%n != 0 {
		w++
	}
	return func(log Log, now time.Time) int64 {
		current, into := now.UnixNano()/w, now.UnixNano()%w
		used := new(big.Rat)
		for _, e := range log.Entries {
			switch back := current - e.At.UnixNano()/w; {
			case back < n || back == n && wholeSlots:
				used = plus(used, whole(e.Units))
			case back == n:
				used = plus(used, times(whole(e.Units), ratio(w-into, w)))
			}
		}
		return floor(minus(whole(limit.Count), used)).Int64()
	}
}
