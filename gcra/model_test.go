package gcra_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

// A model is the virtual scheduling of the recommendation, in exact fractions.
type model struct {
	at   int64    // time of the last paid step
	used *big.Rat // units in use after it; nil: a new key
	unit int64    // the weight of a unit in that step
}

func modelOf(s gcra.State) model {
	if s == (gcra.State{}) {
		return model{}
	}
	return model{s.At, big.NewRat(s.Level, s.Unit), s.Unit}
}

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

// do makes one operation.
func (m model) do(op policy.Op, now, cost int64, o gcra.Options) (next model, r algo.Result) {
	burst := whole(o.Limit.Count)
	if o.Burst > 0 {
		burst = whole(o.Burst)
	}
	rate, err := o.Limit.Rate(burst.Num().Int64())
	if err != nil {
		panic(err)
	}
	interval, most := big.NewRat(rate.Unit, rate.Drain), big.NewRat(algo.MaxLevel, rate.Unit)
	next = m
	if m.used == nil {
		m = model{now, new(big.Rat), rate.Unit}
	}
	at, stateUse := max(m.at, now), m.used
	if m.unit != rate.Unit {
		stateUse = smaller(rational(ceil(m.used)), rational(floor(most)))
	}
	arrival := func(at int64, used *big.Rat) *big.Rat { return plus(whole(at), times(used, interval)) }
	inUse := func(tat *big.Rat, at int64) *big.Rat {
		return larger(over(minus(tat, whole(at)), interval), new(big.Rat))
	}
	left := func(tat *big.Rat) int64 {
		return floor(minus(burst, smaller(most, inUse(tat, now)))).Int64()
	}

	tat := arrival(m.at, stateUse)
	used := inUse(tat, at)
	available, before := left(tat), used
	r.Limit, r.Cost, r.Skew = burst.Num().Int64(), cost, time.Duration(at-now)*time.Microsecond
	if r.Fresh = tat.Cmp(whole(now)) <= 0; !r.Fresh {
		r.Available = min(floor(minus(burst, stateUse)).Int64(), available)
	}
	r.Refilled = available - r.Available

	requested := times(whole(cost), interval)
	retry := minus(plus(minus(larger(tat, whole(now)), whole(now)), requested), times(burst, interval))
	r.Allowed = retry.Sign() <= 0
	switch {
	case op == policy.Refund:
		r.Allowed = true
		used = larger(minus(used, whole(cost)), new(big.Rat))
	case op == policy.Charge:
		r.Allowed = true
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
		if tat, next = arrival(at, used), (model{at, used, rate.Unit}); used.Sign() == 0 {
			tat, next = whole(now), model{}
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

func (m model) is(t *testing.T, s gcra.State) {
	t.Helper()
	if m.used == nil || s == (gcra.State{}) {
		require.True(t, m.used == nil && s == (gcra.State{}), "model %v, state %+v", m, s)
		return
	}
	same := modelOf(s)
	require.Equal(t, m.at, same.at)
	require.Zero(t, m.used.Cmp(same.used), "used: model %v, state %v", m.used, same.used)
}

func TestResultsEqualTheModel(t *testing.T) {
	random := sample.New(1, 2)
	saturated := 0
	for range policytest.Rounds(5000) {
		o, now := anyOptions(random), random.UpTo(algo.MaxInstant)
		var s gcra.State
		var m model
		for range 12 {
			if random.IntN(8) == 0 {
				o = anyOptions(random)
			}
			o.Cost = random.Cost(gcra.Peek(s, time.UnixMicro(now), o))
			op := policy.Op(random.IntN(6) % 4) // more steps and peeks
			next, r := kit.CallBoth(t, s, op, time.UnixMicro(now), o)
			want, expected := m.do(op, now, o.Cost, o)
			require.Equal(t, expected, r, "operation %v of %d at %d under %+v on %+v, %v", op, o.Cost, now, o, s, m)
			want.is(t, next)
			m, s = want, next
			if s.Unit > 0 && r.Limit-r.Remaining >= algo.MaxLevel/s.Unit {
				saturated++
			}
			now = random.Time(now, r, o.Limit.Period, true)
		}
	}
	require.Positive(t, saturated)
}
