package tokenbucket_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/algorithmtest"
	"github.com/sluice-go/sluice/internal/sample"
	"github.com/sluice-go/sluice/tokenbucket"
)

// A model is a level of tokens, which can be a fraction, and the instant at which it had that
// level. It uses exact numbers.
type model struct {
	o      tokenbucket.Options
	full   bool     // new, or equivalent to that
	level  *big.Rat // at the instant since
	since  *big.Int // continuous refill: the latest instant; interval refill: the start of the current interval
	latest *big.Int // the last event that changed something
	left   *big.Int // whole tokens at that time
}

func newModel(o tokenbucket.Options) model { return model{o: o, full: true} }

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

// periods converts ns to periods.
func (m model) periods(ns *big.Int) *big.Rat {
	return new(big.Rat).SetFrac(ns, big.NewInt(int64(m.o.Limit.Period)))
}

// advance brings the level forward to t.
func (m *model) advance(t *big.Int) {
	if m.full || t.Cmp(m.since) <= 0 {
		return
	}
	periods := m.periods(new(big.Int).Sub(t, m.since))
	if m.o.Refill == tokenbucket.Interval {
		n := whole(periods)
		periods.SetInt(n)
		m.since = new(big.Int).Add(m.since, n.Mul(n, big.NewInt(int64(m.o.Limit.Period))))
	} else {
		m.since = t
	}
	m.level = new(big.Rat).Add(m.level, periods.Mul(periods, rational(m.o.Limit.Count)))
	m.full = m.level.Cmp(m.burst()) >= 0
}

// until returns the instant at which the level reaches that many tokens.
func (m model) until(tokens *big.Rat) *big.Int {
	missing := new(big.Rat).Sub(tokens, m.level)
	periods := missing.Quo(missing, rational(m.o.Limit.Count))
	if m.o.Refill == tokenbucket.Interval {
		periods.SetInt(atLeast(periods))
	}
	ns := atLeast(periods.Mul(periods, rational(int64(m.o.Limit.Period))))
	return ns.Add(ns, m.since)
}

// do makes one operation. A charge takes all of its cost. If nothing is paid, nothing changes.
func (m model) do(op algorithm.Op, at, cost int64) (next model, r algo.Result) {
	next, now, burst := m, big.NewInt(at), m.burst()
	if !m.full && now.Cmp(m.latest) < 0 {
		now = m.latest
		r.Skew = algorithmtest.Wait(now, at)
	}
	next.advance(now)
	if next.full {
		next.level, next.since, next.left = burst, now, new(big.Int)
	}
	r.Fresh, r.Limit, r.Cost = next.full, burst.Num().Int64(), cost
	available := whole(next.level)
	r.Available, r.Refilled = next.left.Int64(), new(big.Int).Sub(available, next.left).Int64()
	r.Allowed = op == algorithm.Refund || op == algorithm.Charge || available.Cmp(big.NewInt(cost)) >= 0

	pays := rational(cost)
	switch {
	case op == algorithm.Peek || !r.Allowed:
		pays.SetInt64(0)
	case op == algorithm.Refund:
		if room := new(big.Rat).Sub(burst, new(big.Rat).SetInt(available)); pays.Cmp(room) > 0 {
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
		r.RetryAfter = algorithmtest.Wait(next.until(rational(cost)), at)
	}
	if r.Remaining < r.Limit {
		r.NextRefill = algorithmtest.Wait(next.until(rational(r.Remaining+1)), at)
		r.ResetAfter = algorithmtest.Wait(next.until(burst), at)
	}
	if r.Paid == 0 {
		next = m
	}
	return next, r
}

// inRange reports whether the state after a charge is in range.
func (m model) inRange(at, cost int64) bool {
	next, r := m.do(algorithm.Charge, at, cost)
	last := big.NewInt(math.MaxInt64 - int64(m.o.Limit.Period))
	return r.Limit <= algo.MaxCount+r.Remaining && cost <= algo.MaxCount && next.until(m.burst()).Cmp(last) < 0
}

// run compares random operations with the model. If steady is true, the clock does not step back.
func run(t *testing.T, random sample.Source, o tokenbucket.Options, steady bool, answer func(op algorithm.Op, at, cost int64) algo.Result) {
	m := newModel(o)
	now := random.UpTo(algo.MaxInstant)
	for range 12 {
		_, look := m.do(algorithm.Peek, now, 1)
		cost := random.Cost(look)
		op := algorithm.Op(random.IntN(6) % 4) // more steps and peeks
		if op == algorithm.Charge && !m.inRange(now, cost) {
			op = algorithm.Step
		}
		next, want := m.do(op, now, cost)
		require.Equal(t, want, answer(op, now, cost), "%v on %+v: operation %d at %d, cost %d", o, m, op, now, cost)
		m = next

		if next := random.Time(now, want, o.Limit.Period, true); next > now || !steady {
			now = next
		}
	}
}

func TestResultsEqualTheModel(t *testing.T) {
	random := sample.New(2, 1)
	for range algorithmtest.Rounds(5000) {
		o := anyOptions(random)
		var s tokenbucket.State
		run(t, random, o, false, func(op algorithm.Op, at, cost int64) (r algo.Result) {
			s, r = kit.CallAt(s, op, at, o, cost)
			return r
		})
	}
}
