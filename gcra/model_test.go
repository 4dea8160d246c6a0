package gcra_test

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/gcra"
)

// A model is virtual scheduling as the recommendation has it, in fractions of any
// size: it knows no 128 bits, no weights and no shortcuts.
type model struct {
	at   int64    // the last step that paid
	used *big.Rat // units in use right after it; nil: a key never seen
}

func modelOf(s gcra.State) model {
	if s == (gcra.State{}) {
		return model{}
	}
	return model{s.At, plus(whole(s.Used), big.NewRat(s.Part, int64(s.Period)))}
}

func whole(n int64) *big.Rat       { return new(big.Rat).SetInt64(n) }
func plus(a, b *big.Rat) *big.Rat  { return new(big.Rat).Add(a, b) }
func minus(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func times(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func over(a, b *big.Rat) *big.Rat  { return new(big.Rat).Quo(a, b) }
func floor(a *big.Rat) *big.Int    { return new(big.Int).Div(a.Num(), a.Denom()) }
func ceil(a *big.Rat) *big.Int     { return new(big.Int).Neg(floor(new(big.Rat).Neg(a))) }
func rational(n *big.Int) *big.Rat { return new(big.Rat).SetInt(n) }

func larger(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// wait is a stretch of time, rounded up, or for ever.
func wait(ns *big.Rat) time.Duration {
	if up := ceil(ns); up.IsInt64() {
		return time.Duration(up.Int64())
	}
	return math.MaxInt64
}

type verb int

const (
	step verb = iota
	peek
	refund
	charge
)

// do is what one verb does. Remaining is never less than the burst less 2^63-1.
func (m model) do(v verb, now, cost int64, o gcra.Options) (next model, r algo.Result) {
	burst, interval := whole(o.Limit.Count), big.NewRat(int64(o.Limit.Period), o.Limit.Count)
	if o.Burst > 0 {
		burst = whole(o.Burst)
	}
	next = m
	if m.used == nil {
		m = model{now, new(big.Rat)}
	}
	at, period := max(m.at, now), whole(int64(o.Limit.Period))
	kept := over(rational(ceil(times(m.used, period))), period) // rounded up to a part of the present period
	if most := whole(algo.MaxCount); kept.IsInt() && kept.Cmp(most) > 0 {
		kept = most
	}
	arrival := func(at int64, used *big.Rat) *big.Rat { return plus(whole(at), times(used, interval)) }
	inUse := func(tat *big.Rat, at int64) *big.Rat {
		return larger(over(minus(tat, whole(at)), interval), new(big.Rat))
	}
	least := minus(burst, whole(math.MaxInt64))
	left := func(tat *big.Rat) int64 {
		return larger(least, rational(floor(minus(burst, inUse(tat, now))))).Num().Int64()
	}

	tat := arrival(m.at, kept)
	used := inUse(tat, at)
	there, before := left(tat), used
	r.Limit, r.Cost, r.Skew = burst.Num().Int64(), cost, time.Duration(at-now)
	if r.Fresh = tat.Cmp(whole(now)) <= 0; !r.Fresh {
		r.Available = min(floor(minus(burst, kept)).Int64(), there)
	}
	r.Refilled = there - r.Available

	asked := times(whole(cost), interval)
	retry := minus(plus(minus(larger(tat, whole(now)), whole(now)), asked), times(burst, interval))
	r.Allowed = retry.Sign() <= 0
	switch {
	case v == refund:
		r.Allowed = true
		used = larger(minus(used, whole(cost)), new(big.Rat))
	case v == charge:
		r.Allowed = true
		room := minus(whole(algo.MaxCount), rational(ceil(used)))
		if room = larger(room, new(big.Rat)); room.Cmp(whole(cost)) > 0 {
			room = whole(cost)
		}
		used = plus(used, room)
	case v == step && r.Allowed:
		used = plus(used, whole(cost))
	case cost > r.Limit:
		r.RetryAfter = algo.Never
	case !r.Allowed:
		r.RetryAfter = wait(retry)
	}
	r.Paid = new(big.Int).Sub(ceil(used), ceil(before)).Int64() // as of at, whatever the clock sees of it
	if r.Remaining = there; r.Paid != 0 {
		if tat, next = arrival(at, used), (model{at, used}); used.Sign() == 0 {
			tat, next = whole(now), model{}
		}
		r.Remaining = max(left(tat), math.MinInt64-min(r.Paid, 0))
	}
	r.Available = r.Remaining + r.Paid - r.Refilled
	if tat.Cmp(whole(now)) > 0 {
		one := whole(left(tat) + 1) // is there when this much less is in use
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

// call is a verb of both faces, which are to agree.
func call(t *testing.T, v verb, s gcra.State, at time.Time, o gcra.Options) (next gcra.State, r algo.Result) {
	t.Helper()
	var bytes []byte
	var coded algo.Result
	p, invalid := gcra.New(o)
	state, err := gcra.AppendState(nil, s), error(nil)
	switch v {
	case step:
		next, r = gcra.Step(s, at, o)
		bytes, coded, err = p.Step(nil, state, at, 0)
	case peek:
		next, r = s, gcra.Peek(s, at, o)
		bytes = state
		coded, err = p.Peek(state, at, 0)
	case refund:
		next, r = gcra.Refund(s, at, o)
		bytes, coded, err = p.Refund(nil, state, at, 0)
	case charge:
		next, r = gcra.Charge(s, at, o)
		bytes, coded, err = p.Charge(nil, state, at, 0)
	}
	require.NoError(t, err)
	if invalid == nil {
		require.Equal(t, r, coded)
	}
	require.Equal(t, gcra.AppendState(nil, next), bytes)
	return next, r
}

func TestEveryAnswerIsThatOfTheModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	saturated := 0
	for range rounds(5000) {
		o, now := anyOptions(random), upTo(random, algo.MaxInstant)
		var s gcra.State
		var m model
		for range 12 {
			if random.IntN(8) == 0 {
				o = anyOptions(random)
			}
			look := gcra.Peek(s, time.Unix(0, now), o)
			o.Cost = anyCost(random, look)
			v := verb(random.IntN(6) % 4) // more steps and peeks than others
			next, r := call(t, v, s, time.Unix(0, now), o)
			want, expected := m.do(v, now, o.Cost, o)
			require.Equal(t, expected, r, "%v of %d at %d under %+v on %+v, %v", v, o.Cost, now, o, s, m)
			want.is(t, next)
			m = want
			if r.Remaining <= r.Limit-math.MaxInt64 {
				saturated++
			}
			s = next
			now = anyTime(random, now, r, o)
		}
	}
	require.Positive(t, saturated)
}

func rounds(n int) int {
	if algotest.Brief() {
		return n / 20
	}
	return n
}

func anyCost(random *rand.Rand, look algo.Result) int64 {
	costs := []int64{1, look.Remaining, look.Remaining + 1, look.Remaining / 2, upTo(random, look.Limit), look.Limit, look.Limit + 1}
	return max(1, costs[random.IntN(len(costs))])
}

func anyTime(random *rand.Rand, now int64, r algo.Result, o gcra.Options) int64 {
	waits := []int64{0, 1, int64(r.NextRefill), int64(r.NextRefill) - 1, int64(r.RetryAfter), int64(r.RetryAfter) - 1,
		int64(r.ResetAfter), int64(r.ResetAfter) - 1, upTo(random, int64(o.Limit.Period)), -1, -upTo(random, now)}
	by := waits[random.IntN(len(waits))]
	if by > algo.MaxInstant-now {
		by = 0
	}
	return max(0, now+by)
}

// upTo is from 1 to n, small numbers as likely as large ones.
func upTo(random *rand.Rand, n int64) int64 {
	if n <= 1 {
		return 1
	}
	size := random.IntN(bits.Len64(uint64(n))) + 1
	return min(n, 1<<(size-1)+random.Int64N(1<<(size-1)))
}

// anyOptions are small ones, handy ones, or any that are valid.
func anyOptions(random *rand.Rand) gcra.Options {
	for {
		var o gcra.Options
		switch random.IntN(3) {
		case 0:
			o.Limit = algo.Per(random.Int64N(6)+1, time.Duration(random.Int64N(12)+1))
			o.Burst = random.Int64N(9)
		case 1:
			o.Limit = algo.Per(random.Int64N(1000)+1, []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour}[random.IntN(4)])
			o.Burst = random.Int64N(2000)
		default:
			o.Limit = algo.Per(upTo(random, algo.MaxCount), time.Duration(upTo(random, math.MaxInt64)))
			o.Burst = upTo(random, algo.MaxCount)
		}
		if o.Validate() == nil {
			return o
		}
	}
}
