package tokenbucket_test

import (
	"math/big"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/tokenbucket"
)

const begun = 1 << 51 // with interval refill, State.Unit is this plus a time

func whole(n int64) *big.Rat       { return new(big.Rat).SetInt64(n) }
func plus(a, b *big.Rat) *big.Rat  { return new(big.Rat).Add(a, b) }
func minus(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func times(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func over(a, b *big.Rat) *big.Rat  { return new(big.Rat).Quo(a, b) }
func floor(a *big.Rat) *big.Rat    { return new(big.Rat).SetInt(new(big.Int).Div(a.Num(), a.Denom())) }
func up(a *big.Rat) *big.Rat       { return minus(whole(0), floor(minus(whole(0), a))) } // rounds up
func number(a *big.Rat) int64      { return a.Num().Int64() }

func smaller(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) > 0 {
		return b
	}
	return a
}

// A refill adds tokens once in every such number of microseconds. Continuous refill adds a part of a token every microsecond.
type refill struct {
	tokens      *big.Rat
	every, unit int64
	most        *big.Rat // the most tokens that can be missing
}

func refillOf(o tokenbucket.Options, burst int64) refill {
	if o.Refill == tokenbucket.Interval {
		every := o.Limit.Period.Microseconds()
		longest := times(whole(algo.MaxLevel/every), whole(o.Limit.Count)) // so that the bucket is full in time
		return refill{whole(o.Limit.Count), every, 1, smaller(whole(algo.MaxLevel), longest)}
	}
	rate, err := o.Limit.Rate(burst)
	if err != nil {
		panic(err)
	}
	return refill{big.NewRat(rate.Drain, rate.Unit), 1, rate.Unit, big.NewRat(algo.MaxLevel, rate.Unit)}
}

// model is a number of missing tokens, in exact fractions, and the last refill that counts in it. If nothing is paid, nothing
// changes.
func model(s tokenbucket.State, op policy.Op, now int64, o tokenbucket.Options) (next tokenbucket.State, r algo.Result) {
	burst, cost, last, unit := policy.Or(o.Burst, o.Limit.Count), o.Cost, s.At, s.Unit
	refill, sinceRefill := refillOf(o, burst), int64(0)
	if unit >= begun {
		unit, sinceRefill = 1, s.Unit-begun
	}
	at, missing := last-sinceRefill%refill.every, whole(0)
	if s.Level > 0 {
		missing = big.NewRat(s.Level, unit)
	}
	if unit != refill.unit {
		missing = smaller(up(missing), floor(refill.most))
	}
	missing = smaller(missing, refill.most)
	before := number(up(missing))

	if passed := max(0, now-at) / refill.every; times(whole(passed), refill.tokens).Cmp(missing) < 0 {
		at, missing = at+passed*refill.every, minus(missing, times(whole(passed), refill.tokens))
	} else {
		at, missing = now, whole(0)
	}
	// until returns the time from now until that many tokens are missing.
	until := func(tokens int64) time.Duration {
		refills := number(up(over(minus(missing, whole(tokens)), refill.tokens)))
		return time.Duration(at+refills*refill.every-now) * time.Microsecond
	}

	r.Limit, r.Cost, r.Skew = burst, cost, time.Duration(max(0, last-now))*time.Microsecond
	r.Fresh = missing.Sign() == 0
	available := burst - number(up(missing))
	r.Available = burst - before
	if r.Fresh {
		r.Available = 0
	}
	r.Refilled = available - r.Available
	r.Allowed = op == policy.Refund || op == policy.Charge || cost <= available
	switch {
	case !r.Allowed && cost > burst:
		r.RetryAfter = algo.Never
	case !r.Allowed:
		r.RetryAfter = until(burst - cost)
	case op == policy.Refund:
		r.Paid = -min(cost, burst-available)
	case op == policy.Charge:
		r.Paid = number(smaller(whole(cost), floor(minus(refill.most, missing))))
	case op == policy.Step:
		r.Paid = cost
	}
	missing = plus(missing, whole(r.Paid))
	r.Remaining = available - r.Paid
	if missing.Sign() <= 0 {
		return next, r
	}
	r.NextRefill, r.ResetAfter = until(burst-r.Remaining-1), until(0)
	next = tokenbucket.State{At: max(last, now), Level: number(times(missing, whole(refill.unit))), Unit: refill.unit}
	if refill.every > 1 {
		next.Unit = begun + next.At - at
	}
	return next, r
}
