package tokenbucket_test

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
	"github.com/sluice-go/sluice/tokenbucket"
)

// A model is the bucket as one would explain it: a level of tokens, a fraction
// where they come one by one, and the instant that it is the level of. It has
// numbers of any size and knows no shortcuts.
type model struct {
	o      tokenbucket.Options
	full   bool     // never seen, or as good as that
	level  *big.Rat // at since
	since  *big.Int // continuous: the latest instant; interval: when the present interval began
	latest *big.Int // the last event that changed something
	left   *big.Int // whole tokens then
}

func newModel(o tokenbucket.Options) model { return model{o: o, full: true} }

func integer(n int64) *big.Int  { return big.NewInt(n) }
func rational(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }
func whole(x *big.Rat) *big.Int { return new(big.Int).Div(x.Num(), x.Denom()) } // rounds down
func atLeast(x *big.Rat) *big.Int { // rounds up
	return new(big.Int).Neg(whole(new(big.Rat).Neg(x)))
}

func (m model) burst() *big.Rat {
	if m.o.Burst == 0 {
		return rational(m.o.Limit.Count)
	}
	return rational(m.o.Burst)
}

// periods is ns in periods.
func (m model) periods(ns *big.Int) *big.Rat {
	return new(big.Rat).SetFrac(ns, integer(int64(m.o.Limit.Period)))
}

// advance lets time pass up to t.
func (m *model) advance(t *big.Int) {
	if m.full || t.Cmp(m.since) <= 0 {
		return
	}
	periods := m.periods(new(big.Int).Sub(t, m.since))
	if m.o.Refill == tokenbucket.Interval {
		n := whole(periods)
		periods.SetInt(n)
		m.since = new(big.Int).Add(m.since, n.Mul(n, integer(int64(m.o.Limit.Period))))
	} else {
		m.since = t
	}
	m.level = new(big.Rat).Add(m.level, periods.Mul(periods, rational(m.o.Limit.Count)))
	m.full = m.level.Cmp(m.burst()) >= 0
}

// until is the instant at which the level reaches so many tokens.
func (m model) until(tokens *big.Rat) *big.Int {
	missing := new(big.Rat).Sub(tokens, m.level)
	periods := missing.Quo(missing, rational(m.o.Limit.Count))
	if m.o.Refill == tokenbucket.Interval {
		periods.SetInt(atLeast(periods))
	}
	ns := atLeast(periods.Mul(periods, rational(int64(m.o.Limit.Period))))
	return ns.Add(ns, m.since)
}

type verb int

const (
	step verb = iota
	peek
	refund
	charge
)

// do is what happens at the instant at. It has no ranges: a charge takes all it
// is asked for. Where nothing is paid, nothing changes.
func (m model) do(v verb, at, cost int64) (next model, r algo.Result) {
	next, now, burst := m, integer(at), m.burst()
	if !m.full && now.Cmp(m.latest) < 0 {
		now = m.latest
		r.Skew = wait(now, at)
	}
	next.advance(now)
	if next.full {
		next.level, next.since, next.left = burst, now, new(big.Int)
	}
	r.Fresh, r.Limit, r.Cost = next.full, burst.Num().Int64(), cost
	there := whole(next.level)
	r.Available, r.Refilled = next.left.Int64(), new(big.Int).Sub(there, next.left).Int64()
	r.Allowed = v == refund || v == charge || there.Cmp(integer(cost)) >= 0

	pays := rational(cost)
	switch {
	case v == peek || !r.Allowed:
		pays.SetInt64(0)
	case v == refund:
		if room := new(big.Rat).Sub(burst, new(big.Rat).SetInt(there)); pays.Cmp(room) > 0 {
			pays = room
		}
		pays.Neg(pays)
	}
	r.Paid = pays.Num().Int64()
	next.level = new(big.Rat).Sub(next.level, pays)
	next.left, next.latest, next.full = whole(next.level), now, next.level.Cmp(burst) >= 0
	r.Remaining = next.left.Int64()

	switch {
	case r.Allowed:
	case cost > r.Limit:
		r.RetryAfter = algo.Never
	default:
		r.RetryAfter = wait(next.until(rational(cost)), at)
	}
	if r.Remaining < r.Limit {
		r.NextRefill = wait(next.until(rational(r.Remaining+1)), at)
		r.ResetAfter = wait(next.until(burst), at)
	}
	if r.Paid == 0 {
		next = m
	}
	return next, r
}

func wait(until *big.Int, from int64) time.Duration {
	return time.Duration(new(big.Int).Sub(until, integer(from)).Int64())
}

// holds reports whether a charge stays within what a state can hold.
func (m model) holds(at, cost int64) bool {
	next, r := m.do(charge, at, cost)
	last := integer(math.MaxInt64 - int64(m.o.Limit.Period))
	return r.Limit-r.Remaining <= algo.MaxCount && cost <= algo.MaxCount && next.until(m.burst()).Cmp(last) < 0
}

// run plays random events and compares each answer with that of the model.
func run(t *testing.T, random *rand.Rand, o tokenbucket.Options, steady bool, answer func(v verb, at, cost int64) algo.Result) {
	m := newModel(o)
	now := upTo(random, algo.MaxInstant)
	for range 12 {
		_, look := m.do(peek, now, 1)
		left := look.Available + look.Refilled
		costs := []int64{1, left, left + 1, left / 2, upTo(random, look.Limit), look.Limit, look.Limit + 1}
		cost := max(1, costs[random.IntN(len(costs))])
		v := verb(random.IntN(6) % 4) // more steps and peeks than others
		if v == charge && !m.holds(now, cost) {
			v = step
		}
		next, want := m.do(v, now, cost)
		require.Equal(t, want, answer(v, now, cost), "%v on %+v: verb %d at %d, cost %d", o, m, v, now, cost)
		m = next

		by := []int64{0, 1, int64(want.NextRefill), int64(want.NextRefill) - 1, int64(want.ResetAfter), int64(want.ResetAfter) - 1,
			upTo(random, int64(o.Limit.Period)), upTo(random, int64(o.Limit.Period)), -upTo(random, now)}[random.IntN(9)]
		if steady {
			by = max(by, 0)
		}
		if by > algo.MaxInstant-now {
			by = 0
		}
		now = max(0, now+by)
	}
}

func upTo(random *rand.Rand, n int64) int64 {
	if n <= 1 {
		return 1
	}
	size := random.IntN(bits.Len64(uint64(n))) + 1
	return min(n, 1<<(size-1)+random.Int64N(1<<(size-1)))
}

// anyOptions are small ones, handy ones, or any that are valid.
func anyOptions(random *rand.Rand) tokenbucket.Options {
	for {
		o := tokenbucket.Options{Refill: tokenbucket.Refill(random.IntN(2))}
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

func TestEveryAnswerIsThatOfTheModel(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 1))
	for range rounds(5000) {
		o := anyOptions(random)
		var s tokenbucket.State
		run(t, random, o, false, func(v verb, at, cost int64) (r algo.Result) {
			s, r = call(s, v, at, o, cost)
			return r
		})
	}
}

func rounds(n int) int {
	if algotest.Brief() {
		return n / 20
	}
	return n
}

// call is one of the typed verbs.
func call(s tokenbucket.State, v verb, at int64, o tokenbucket.Options, cost int64) (tokenbucket.State, algo.Result) {
	now := time.Unix(0, at)
	o.Cost = cost
	switch v {
	case step:
		return tokenbucket.Step(s, now, o)
	case refund:
		return tokenbucket.Refund(s, now, o)
	case charge:
		return tokenbucket.Charge(s, now, o)
	}
	return s, tokenbucket.Peek(s, now, o)
}
