package algo

import (
	"fmt"
	"math/bits"
	"time"
)

// Rate is the rate of a limit for gcra and tokenbucket: a unit weighs Unit, and a weight of Drain drains every microsecond. A
// full burst weighs less than 2^51.
type Rate struct{ Drain, Unit int64 }

// MaxLevel is the highest weight of the units in use.
const MaxLevel = 1<<52 - 1

const maxCapacity = 1<<51 - 1

// Rate returns the rate of l for a burst from 1 to MaxCount. It is exact, in lowest terms, if a burst then weighs less than 2^51.
// Otherwise it is rounded down, to the largest fraction with a smaller Unit.
//
// Rate returns an error if the burst takes 71 years or longer to refill. It also returns one if rounding makes the rate slower by
// 1e-6, or by 1e-4 above a count or burst of 2^31. The error names the nearest lower burst that works.
func (l Limit) Rate(burst int64) (Rate, error) {
	if err := l.Validate(); err != nil {
		return Rate{}, err
	}
	r, ok := l.FastRate(burst)
	switch {
	case ok:
		return r, nil
	case r.Drain == 0:
		return r, fmt.Errorf("a burst of %d at %v takes 71 years or longer to refill; use a burst of %d, or a faster limit", burst, l, l.longestBurst(burst))
	}
	return r, fmt.Errorf("%v with a burst of %d needs numbers above 2^51; use a burst of %d, or with this burst the limit %v, which is slightly slower",
		l, burst, l.longestBurst(burst), Per(r.Drain, time.Duration(r.Unit)*time.Microsecond))
}

// many is the largest count or burst for which the rate must be exact to 1e-6.
const many = 1 << 31

// longestBurst returns the largest burst that FastRate accepts, below one that it refuses. It accepts a burst of 1 for any limit.
// Because of the tolerance, it can refuse some bursts up to many although it accepts larger ones.
func (l Limit) longestBurst(refused int64) int64 {
	accepted := int64(1)
	if refused > many+1 {
		if _, ok := l.FastRate(many + 1); ok {
			accepted = many + 1
		} else {
			refused = many + 1
		}
	}
	for refused-accepted > 1 {
		middle := accepted + (refused-accepted)/2
		if _, ok := l.FastRate(middle); ok {
			accepted = middle
		} else {
			refused = middle
		}
	}
	return accepted
}

// FastRate is Rate for a valid limit and burst, without an error.
func (l Limit) FastRate(burst int64) (r Rate, ok bool) {
	count, period := l.Count, l.Period.Microseconds()
	if r = (Rate{1, period / count}); r.Unit*count != period {
		divisor, rest := period, count
		for rest != 0 {
			divisor, rest = rest, divisor%rest
		}
		r = Rate{count / divisor, period / divisor}
	}
	if high, low := bits.Mul64(uint64(burst), uint64(r.Unit)); high == 0 && low <= maxCapacity {
		return r, true
	}
	r = largestBelow(count, period, maxCapacity/burst)
	tolerance := 1e-6
	if max(count, burst) > many {
		tolerance = 1e-4
	}
	missing := float64(count)*float64(r.Unit) - float64(period)*float64(r.Drain)
	return r, missing < tolerance*float64(count)*float64(r.Unit) && r.Drain > 0
}

// largestBelow returns the largest fraction below count/period with a Unit of at most max, which count/period itself must
// not have. It walks down the Stern-Brocot tree, many steps at once. count/period stays between lower and upper.
func largestBelow(count, period, max int64) Rate {
	lower, upper := Rate{0, 1}, Rate{1, 0}
	missing, surplus := count, period // count*Unit - period*Drain of lower, and minus that of upper
	for {
		steps := missing / surplus
		if upper.Unit > 0 {
			steps = min(steps, (max-lower.Unit)/upper.Unit)
		}
		lower, missing = Rate{lower.Drain + steps*upper.Drain, lower.Unit + steps*upper.Unit}, missing-steps*surplus
		if lower.Unit+upper.Unit > max {
			return lower
		}
		steps = min(surplus/missing, (max-upper.Unit)/lower.Unit)
		upper, surplus = Rate{upper.Drain + steps*lower.Drain, upper.Unit + steps*lower.Unit}, surplus-steps*missing
		if lower.Unit+upper.Unit > max {
			return lower
		}
	}
}
