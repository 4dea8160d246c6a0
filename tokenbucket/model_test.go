package tokenbucket_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/tokenbucket"
)

// A model is a number of missing tokens, in exact fractions, and the last refill that counts in it.
type model struct {
	at      int64
	missing *big.Rat
	unit    int64 // the weight of a token
	last    int64 // the last paid step
}

func modelOf(s tokenbucket.State) model {
	if s == (tokenbucket.State{}) {
		return model{missing: new(big.Rat)}
	}
	if passed := s.Unit - 1<<51; passed >= 0 {
		return model{s.At - passed, whole(s.Level), 1, s.At}
	}
	return model{s.At, big.NewRat(s.Level, s.Unit), s.Unit, s.At}
}

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

// do makes one operation. If nothing is paid, nothing changes.
func (m model) do(op policy.Op, now, cost int64, o tokenbucket.Options) (next model, r algo.Result) {
	burst := policy.Or(o.Burst, o.Limit.Count)
	refill := refillOf(o, burst)
	at, missing := m.last-(m.last-m.at)%refill.every, smaller(m.missing, refill.most)
	if m.unit != refill.unit {
		missing = smaller(up(m.missing), floor(refill.most))
	}
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

	r.Limit, r.Cost, r.Skew = burst, cost, time.Duration(max(0, m.last-now))*time.Microsecond
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
	if missing = plus(missing, whole(r.Paid)); missing.Sign() < 0 {
		missing = whole(0)
	}
	r.Remaining = available - r.Paid
	if missing.Sign() > 0 {
		r.NextRefill, r.ResetAfter = until(burst-r.Remaining-1), until(0)
	}
	switch {
	case r.Paid == 0:
		return m, r
	case missing.Sign() == 0:
		return modelOf(tokenbucket.State{}), r
	}
	return model{at, missing, refill.unit, max(m.last, now)}, r
}

func (m model) is(t *testing.T, s tokenbucket.State) {
	t.Helper()
	same := modelOf(s)
	require.Equal(t, m.at, same.at)
	require.Equal(t, m.unit, same.unit)
	require.Equal(t, m.last, same.last)
	require.Zero(t, m.missing.Cmp(same.missing), "missing: model %v, state %v", m.missing, same.missing)
}

// The limit, the burst and the kind of refill may change at any time.
func TestResultsEqualTheModel(t *testing.T) {
	random := sample.New(2, 1)
	debts, most := 0, 0
	for range policytest.Rounds(10_000) {
		o, now := anyOptions(random), random.UpTo(algo.MaxInstant)
		var s tokenbucket.State
		m := modelOf(s)
		for range 12 {
			if random.IntN(8) == 0 {
				o = anyOptions(random)
			}
			o.Cost = random.Cost(tokenbucket.Peek(s, time.UnixMicro(now), o))
			if random.IntN(50) == 0 {
				o.Cost = random.UpTo(algo.MaxLevel)
			}
			op := policy.Op(random.IntN(6) % 4) // more steps and peeks
			next, r := kit.CallBoth(t, s, op, time.UnixMicro(now), o)
			want, expected := m.do(op, now, o.Cost, o)
			require.Equal(t, expected, r, "%v of %d at %d under %+v on %+v", op, o.Cost, now, o, s)
			want.is(t, next)
			m, s = want, next
			if r.Remaining < 0 {
				debts++
			}
			if op == policy.Charge && r.Paid < o.Cost {
				most++
			}
			now = random.Time(now, r, o.Limit.Period, true)
		}
	}
	require.Positive(t, debts)
	require.Positive(t, most)
}
