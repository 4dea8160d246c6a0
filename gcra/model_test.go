package gcra_test

import (
	"math/big"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/policy"
)

func whole(n int64) *big.Rat       { return new(big.Rat).SetInt64(n) }
func plus(a, b *big.Rat) *big.Rat  { return new(big.Rat).Add(a, b) }
func minus(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func times(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func over(a, b *big.Rat) *big.Rat  { return new(big.Rat).Quo(a, b) }
func floor(a *big.Rat) *big.Int    { return new(big.Int).Div(a.Num(), a.Denom()) }
func ceil(a *big.Rat) *big.Int     { return new(big.Int).Neg(floor(new(big.Rat).Neg(a))) }
func rational(n *big.Int) *big.Rat { return new(big.Rat).SetInt(n) }

func smaller(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) > 0 {
		return b
	}
	return a
}

func larger(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// wait converts microseconds to a Duration, rounded up.
func wait(us *big.Rat) time.Duration { return time.Duration(ceil(us).Int64()) * time.Microsecond }

// model is the virtual scheduling of the recommendation, in exact fractions.
func model(s gcra.State, op policy.Op, now int64, o gcra.Options) (next gcra.State, r algo.Result) {
	cost, burst := o.Cost, whole(policy.Or(o.Burst, o.Limit.Count))
	rate, err := o.Limit.Rate(burst.Num().Int64())
	if err != nil {
		panic(err)
	}
	interval, most := big.NewRat(rate.Unit, rate.Drain), big.NewRat(algo.MaxLevel, rate.Unit)
	next = s
	if s.Level == 0 {
		s = gcra.State{At: now, Unit: rate.Unit}
	}
	at, stateUse := max(s.At, now), big.NewRat(s.Level, s.Unit)
	if s.Unit != rate.Unit {
		stateUse = smaller(rational(ceil(stateUse)), rational(floor(most)))
	}
	arrival := func(at int64, used *big.Rat) *big.Rat { return plus(whole(at), times(used, interval)) }
	inUse := func(tat *big.Rat, at int64) *big.Rat {
		return larger(over(minus(tat, whole(at)), interval), new(big.Rat))
	}
	left := func(tat *big.Rat) int64 {
		return floor(minus(burst, smaller(most, inUse(tat, now)))).Int64()
	}

	tat := arrival(s.At, stateUse)
	used := inUse(tat, at)
	available, before := left(tat), used
	r.Limit, r.Cost, r.Skew = burst.Num().Int64(), cost, time.Duration(at-now)*time.Microsecond
	if r.Fresh = tat.Cmp(whole(now)) <= 0; !r.Fresh {
		r.Available = min(floor(minus(burst, stateUse)).Int64(), available)
	}
	r.Refilled = available - r.Available

	requested := times(whole(cost), interval)
	retry := minus(plus(minus(larger(tat, whole(now)), whole(now)), requested), times(burst, interval))
	r.Allowed = op == policy.Refund || op == policy.Charge || retry.Sign() <= 0
	switch {
	case op == policy.Refund:
		used = larger(minus(used, whole(cost)), new(big.Rat))
	case op == policy.Charge:
		used = plus(used, smaller(whole(cost), rational(floor(minus(most, used)))))
	case op == policy.Step && r.Allowed:
		used = plus(used, whole(cost))
	case cost > r.Limit:
		r.RetryAfter = algo.Never
	case !r.Allowed:
		r.RetryAfter = wait(retry)
	}
	r.Paid = new(big.Int).Sub(ceil(used), ceil(before)).Int64() // at the state's time
	if r.Remaining = available; r.Paid != 0 {
		level := times(used, whole(rate.Unit)).Num().Int64()
		if tat, next = arrival(at, used), (gcra.State{At: at, Level: level, Unit: rate.Unit}); level == 0 {
			tat, next = whole(now), gcra.State{}
		}
		r.Remaining = left(tat)
	}
	r.Available = r.Remaining + r.Paid - r.Refilled
	if tat.Cmp(whole(now)) > 0 {
		one := whole(left(tat) + 1) // is left when this much less is in use
		r.NextRefill = wait(minus(tat, plus(whole(now), times(minus(burst, one), interval))))
		r.ResetAfter = wait(minus(tat, whole(now)))
	}
	return next, r
}
