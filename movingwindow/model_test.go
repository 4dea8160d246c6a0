package movingwindow_test

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
	"github.com/sluice-go/sluice/movingwindow"
)

// A model is the log of what was paid and when, read anew for every question.
// Waits are found by asking again and again. It has numbers of any size.
type model struct {
	o      movingwindow.Options
	log    []payment // in the order of time
	latest *big.Int  // the last event that changed something
}

type payment struct{ at, units *big.Int }

func integer(n int64) *big.Int { return big.NewInt(n) }

func newModel(o movingwindow.Options) model { return model{o: o, latest: integer(0)} }

func (m model) slots() *big.Int { return integer(max(int64(m.o.Slots), 1)) }

func (m model) width() *big.Int {
	width := new(big.Int).Add(integer(int64(m.o.Limit.Period)), m.slots())
	return width.Div(width.Sub(width, integer(1)), m.slots())
}

func (m model) slot(t *big.Int) *big.Int { return new(big.Int).Div(t, m.width()) }

// back is how many slots before that of t a payment was made.
func (m model) back(p payment, t *big.Int) *big.Int {
	return new(big.Int).Sub(m.slot(t), m.slot(p.at))
}

// used is what counts at t, each payment by its share.
func (m model) used(t *big.Int) *big.Rat {
	sum := new(big.Rat)
	for _, p := range m.log {
		units := new(big.Rat).SetInt(p.units)
		switch m.back(p, t).Cmp(m.slots()) {
		case 1:
			continue
		case 0:
			if m.o.Trailing == movingwindow.Weighted {
				into := new(big.Int).Mod(t, m.width())
				units.Mul(units, new(big.Rat).SetFrac(into.Sub(m.width(), into), m.width()))
			}
		}
		sum.Add(sum, units)
	}
	return sum
}

// left is the whole units to spend at t.
func (m model) left(t *big.Int) *big.Int {
	left := new(big.Rat).SetInt64(m.o.Limit.Count)
	left.Sub(left, m.used(t))
	return new(big.Int).Div(left.Num(), left.Denom())
}

// first is the first instant from t on at which so many units are left.
func (m model) first(t, units *big.Int) *big.Int {
	lo := t
	hi := new(big.Int).Add(m.slots(), integer(1))
	hi.Mul(hi, m.width()).Add(hi, t) // everything has lapsed by then
	for lo.Cmp(hi) < 0 {
		mid := new(big.Int).Add(lo, hi)
		mid.Rsh(mid, 1)
		if m.left(mid).Cmp(units) >= 0 {
			hi = mid
		} else {
			lo = mid.Add(mid, integer(1))
		}
	}
	return lo
}

type verb int

const (
	step verb = iota
	peek
	refund
	charge
)

// do is what happens at the instant at. It has no ranges. Where nothing is paid
// or given back, nothing changes.
func (m model) do(v verb, at, cost int64) (next model, r algo.Result) {
	now, limit, units := integer(at), integer(m.o.Limit.Count), integer(cost)
	r.Limit, r.Cost = m.o.Limit.Count, cost
	if now.Cmp(m.latest) < 0 && m.used(m.latest).Sign() > 0 {
		now = m.latest
		r.Skew = wait(now, at)
	}
	there := m.left(now)
	if r.Fresh = m.used(now).Sign() == 0; r.Fresh {
		r.Refilled = r.Limit
	} else {
		r.Available = m.left(m.latest).Int64()
		r.Refilled = there.Int64() - r.Available
	}
	fits := there.Cmp(units) >= 0
	r.Allowed = v == refund || v == charge || fits
	next = m
	switch {
	case v == refund && !r.Fresh:
		next = m.without(units, now)
	case v == charge || v == step && fits:
		next = m.with(units, now)
	}
	left := next.left(now)
	r.Remaining = left.Int64()
	r.Paid = new(big.Int).Sub(there, left).Int64()
	switch {
	case r.Allowed:
	case units.Cmp(limit) > 0:
		r.RetryAfter = algo.Never
	default:
		r.RetryAfter = wait(next.first(now, units), at)
	}
	if left.Cmp(limit) < 0 {
		r.NextRefill = wait(next.first(now, new(big.Int).Add(left, integer(1))), at)
		r.ResetAfter = wait(next.first(now, limit), at)
	}
	return next, r
}

func (m model) with(units, now *big.Int) model {
	m.log = append(append([]payment{}, m.log...), payment{now, units})
	m.latest = now
	return m
}

// without is the log with so many of the newest units struck out that still count.
func (m model) without(units, now *big.Int) model {
	old := m.log
	m.log, m.latest = nil, now
	for i := len(old) - 1; i >= 0; i-- {
		p := old[i]
		if m.back(p, now).Cmp(m.slots()) > 0 {
			continue
		}
		struck := p.units
		if struck.Cmp(units) > 0 {
			struck = units
		}
		units = new(big.Int).Sub(units, struck)
		if p.units = new(big.Int).Sub(p.units, struck); p.units.Sign() > 0 {
			m.log = append([]payment{p}, m.log...)
		}
	}
	return m
}

// total is the units that count at the instant, in full.
func (m model) total(at int64) *big.Int {
	sum := new(big.Int)
	now := integer(at)
	if now.Cmp(m.latest) < 0 {
		now = m.latest
	}
	for _, p := range m.log {
		if m.back(p, now).Cmp(m.slots()) <= 0 {
			sum.Add(sum, p.units)
		}
	}
	return sum
}

// wait is how long from an instant until another, or until the last of int64.
func wait(until *big.Int, from int64) time.Duration {
	if !until.IsInt64() {
		until = integer(math.MaxInt64)
	}
	return time.Duration(until.Int64() - from)
}

// run plays random events and compares each answer with that of the model.
func run(t *testing.T, random *rand.Rand, o movingwindow.Options, answer func(v verb, at, cost int64) algo.Result) {
	t.Helper()
	m := newModel(o)
	now := upTo(random, algo.MaxInstant)
	width := m.width().Int64()
	for range 12 {
		left := m.left(integer(now)).Int64()
		costs := []int64{1, left, left + 1, left / 2, upTo(random, o.Limit.Count), o.Limit.Count, o.Limit.Count + 1}
		cost := max(1, costs[random.IntN(len(costs))])
		v := verb(random.IntN(6) % 4) // more steps and peeks than others
		if v == charge && new(big.Int).Add(m.total(now), integer(cost)).Cmp(integer(algo.MaxCount)) > 0 {
			v = step
		}
		next, want := m.do(v, now, cost)
		require.Equal(t, want, answer(v, now, cost), "%+v on %+v: verb %d at %d, cost %d", o, m, v, now, cost)
		m = next

		by := []int64{
			0, 1, int64(want.NextRefill), int64(want.NextRefill) - 1, int64(want.ResetAfter), int64(want.ResetAfter) - 1,
			upTo(random, int64(o.Limit.Period)), upTo(random, width), width - now%width - 1, -upTo(random, now),
		}[random.IntN(10)]
		if by > algo.MaxInstant-now {
			by = 0
		}
		now = max(0, now+by)
	}
}

// upTo is a number from 1 to n, of any size alike.
func upTo(random *rand.Rand, n int64) int64 {
	if n <= 1 {
		return 1
	}
	size := random.IntN(bits.Len64(uint64(n))) + 1
	return min(n, 1<<(size-1)+random.Int64N(1<<(size-1)))
}

// anyOptions are small ones, handy ones, or any that are valid.
func anyOptions(random *rand.Rand) movingwindow.Options {
	o := movingwindow.Options{Trailing: movingwindow.Trailing(random.IntN(2))}
	switch random.IntN(3) {
	case 0:
		o.Limit = algo.Per(random.Int64N(6)+1, time.Duration(random.Int64N(12)+1))
		o.Slots = random.IntN(6)
	case 1:
		o.Limit = algo.Per(random.Int64N(1000)+1, []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour}[random.IntN(4)])
		o.Slots = []int{0, 1, 2, 6, 12, 16, 17, 60}[random.IntN(8)]
	default:
		o.Limit = algo.Per(upTo(random, algo.MaxCount), time.Duration(upTo(random, math.MaxInt64)))
		o.Slots = int(upTo(random, movingwindow.MaxSlots))
	}
	return o
}

func TestEveryAnswerIsThatOfTheModel(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 4))
	for range rounds(500) {
		o := anyOptions(random)
		policy, err := movingwindow.New(o)
		require.NoError(t, err)
		var s movingwindow.State
		var b []byte
		run(t, random, o, func(v verb, at, cost int64) (r algo.Result) {
			before := movingwindow.AppendState(nil, s)
			next, r := call(s, v, at, o, cost)
			require.Equal(t, before, movingwindow.AppendState(nil, s), "the argument was modified")
			bytes, same := callPolicy(t, policy, v, b, at, cost)
			require.Equal(t, r, same)
			require.Equal(t, movingwindow.AppendState([]byte{}, next), bytes)
			s, b = next, bytes
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
func call(s movingwindow.State, v verb, at int64, o movingwindow.Options, cost int64) (movingwindow.State, algo.Result) {
	o.Cost = cost
	return verbs[v](s, time.Unix(0, at), o)
}

var verbs = [...]func(movingwindow.State, time.Time, movingwindow.Options) (movingwindow.State, algo.Result){
	step: movingwindow.Step,
	peek: func(s movingwindow.State, now time.Time, o movingwindow.Options) (movingwindow.State, algo.Result) {
		return s, movingwindow.Peek(s, now, o)
	},
	refund: movingwindow.Refund,
	charge: movingwindow.Charge,
}

// callPolicy is the same verb over bytes.
func callPolicy(t *testing.T, p movingwindow.Policy, v verb, state []byte, at, cost int64) (next []byte, r algo.Result) {
	t.Helper()
	now := time.Unix(0, at)
	var err error
	switch v {
	case step:
		next, r, err = p.Step([]byte{}, state, now, cost)
	case refund:
		next, r, err = p.Refund([]byte{}, state, now, cost)
	case charge:
		next, r, err = p.Charge([]byte{}, state, now, cost)
	default:
		next = append([]byte{}, state...)
		r, err = p.Peek(state, now, cost)
	}
	require.NoError(t, err)
	return next, r
}
