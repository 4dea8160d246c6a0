package algotest

import (
	"math"
	"math/big"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Log is all units that one key took, in the order of time.
type Log struct {
	Entries []Entry
}

// Entry is the units taken at an instant, or given back if Units is negative.
type Entry struct {
	At    time.Time
	Units int64
}

// Add appends an entry, whose time must not be before that of the last one.
func (l *Log) Add(at time.Time, units int64) {
	l.Entries = append(l.Entries, Entry{at, units})
}

// Admitted returns the units taken in [from, from+interval), or math.MaxInt64 if they overflow an int64.
func (l *Log) Admitted(from time.Time, interval time.Duration) int64 {
	sum := new(big.Int)
	for _, e := range l.Entries {
		if since := e.At.Sub(from); since >= 0 && since < interval {
			sum.Add(sum, big.NewInt(e.Units))
		}
	}
	if !sum.IsInt64() {
		return math.MaxInt64
	}
	return sum.Int64()
}

// Worst returns the most units taken in any half-open interval of that length.
func (l *Log) Worst(interval time.Duration) int64 {
	var worst int64
	for _, e := range l.Entries { // the worst interval begins with an entry, or ends before a refund
		worst = max(worst, l.Admitted(e.At, interval), l.Admitted(e.At.Add(-interval), interval))
	}
	return worst
}

// Oracle returns how many whole units are left at now, negative for a debt: Available + Refilled of a step then. now must not be
// before the last entry.
type Oracle func(log Log, now time.Time) int64

// units returns n*parts/whole.
func units(n, parts, whole int64) *big.Rat {
	x := big.NewRat(parts, whole)
	return x.Mul(x, new(big.Rat).SetInt64(n))
}

func atLeast0(x *big.Rat) *big.Rat {
	if x.Sign() < 0 {
		return new(big.Rat)
	}
	return x
}

// rest returns capacity minus used, rounded down.
func rest(capacity int64, used *big.Rat) int64 {
	left := new(big.Rat).SetInt64(capacity)
	left.Sub(left, used)
	return new(big.Int).Div(left.Num(), left.Denom()).Int64()
}

// Bucket returns the oracle of gcra, and of the token bucket with continuous refill. It panics if limit.Rate refuses the burst.
func Bucket(limit algo.Limit, burst int64) Oracle {
	rate, err := limit.Rate(burst)
	if err != nil {
		panic(err)
	}
	return func(log Log, now time.Time) int64 {
		used, last := new(big.Rat), time.Time{}
		drain := func(to time.Time) {
			used = atLeast0(used.Sub(used, units(rate.Drain, to.Sub(last).Microseconds(), rate.Unit)))
			last = to
		}
		for _, e := range log.Entries {
			drain(e.At)
			used = atLeast0(used.Add(used, units(e.Units, 1, 1)))
		}
		drain(now)
		return rest(burst, used)
	}
}

// IntervalBucket returns the oracle of the token bucket with interval refill.
func IntervalBucket(limit algo.Limit, burst int64) Oracle {
	return func(log Log, now time.Time) int64 {
		var anchor time.Time
		used := int64(0)
		refill := func(to time.Time) {
			n := int64(to.Sub(anchor) / limit.Period)
			if used == 0 || n > (used-1)/limit.Count {
				used, anchor = 0, to
				return
			}
			used, anchor = used-n*limit.Count, anchor.Add(time.Duration(n)*limit.Period)
		}
		for _, e := range log.Entries {
			refill(e.At)
			used = max(0, used+e.Units)
		}
		refill(now)
		return burst - used
	}
}

// WindowFromFirst returns the oracle of the fixed window with AlignFirst.
func WindowFromFirst(limit algo.Limit) Oracle {
	return func(log Log, now time.Time) int64 {
		var opened time.Time
		used := int64(0)
		for _, e := range log.Entries {
			if used == 0 || e.At.Sub(opened) >= limit.Period {
				used, opened = 0, e.At
			}
			used = max(0, used+e.Units)
		}
		if now.Sub(opened) >= limit.Period {
			return limit.Count
		}
		return limit.Count - used
	}
}

// WindowByClock returns the oracle of the fixed window with AlignClock.
func WindowByClock(limit algo.Limit, offset time.Duration) Oracle {
	window := func(t time.Time) *big.Int {
		since := big.NewInt(t.UnixMicro())
		since.Sub(since, big.NewInt(offset.Microseconds()))
		return since.Div(since, big.NewInt(limit.Period.Microseconds()))
	}
	return func(log Log, now time.Time) int64 {
		used := int64(0)
		for _, e := range log.Entries {
			if window(e.At).Cmp(window(now)) == 0 {
				used += e.Units
			}
		}
		return limit.Count - used
	}
}

// MovingWindow returns the oracle of the moving window. whole sets Trailing: Whole.
func MovingWindow(limit algo.Limit, slots int, whole bool) Oracle {
	n, w := int64(slots), ceil(limit.Period.Microseconds(), int64(slots))
	grain := w/((1<<50-1)/limit.Count+1) + 1
	weight := w / grain
	return func(log Log, now time.Time) int64 {
		current, into := now.UnixMicro()/w, now.UnixMicro()%w
		used := new(big.Rat)
		for _, e := range log.Entries {
			switch back := current - e.At.UnixMicro()/w; {
			case back < n || back == n && whole:
				used.Add(used, units(e.Units, 1, 1))
			case back == n:
				used.Add(used, units(e.Units, min(weight, ceil(w-into, grain)), weight))
			}
		}
		return rest(limit.Count, used)
	}
}

// ceil returns a/b, rounded up.
func ceil(a, b int64) int64 { return (a + b - 1) / b }
