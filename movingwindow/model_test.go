package movingwindow_test

import (
	"math"
	"math/big"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/movingwindow"
)

// A model is a log of payments. It computes every result from the whole log, and finds waits by
// binary search. It uses exact numbers.
type model struct {
	o      movingwindow.Options
	log    []payment // in the order of time
	latest *big.Int  // time of the last event that changed the log
}

type payment struct{ at, units *big.Int }

func newModel(o movingwindow.Options) model { return model{o: o, latest: big.NewInt(0)} }

func (m model) slots() *big.Int { return big.NewInt(max(int64(m.o.Slots), 1)) }

func (m model) width() *big.Int {
	width := new(big.Int).Add(big.NewInt(m.o.Limit.Period.Microseconds()), m.slots())
	return width.Div(width.Sub(width, big.NewInt(1)), m.slots())
}

func (m model) slot(t *big.Int) *big.Int { return new(big.Int).Div(t, m.width()) }

// back returns the number of slots from a payment to t.
func (m model) back(p payment, t *big.Int) *big.Int {
	return new(big.Int).Sub(m.slot(t), m.slot(p.at))
}

// weights returns the weight of a whole slot, and how many microseconds it takes to lose one. They are the largest for which a
// full window weighs less than 2^50.
func (m model) weights() (weight, grain *big.Int) {
	whole := func(grain int64) *big.Int { return new(big.Int).Div(m.width(), big.NewInt(grain)) }
	g := 1 + int64(sort.Search(int(m.width().Int64()), func(i int) bool {
		full := new(big.Int).Mul(whole(int64(i)+1), big.NewInt(m.o.Limit.Count))
		return full.BitLen() <= 50
	}))
	return whole(g), big.NewInt(g)
}

// overlap returns how much of the trailing slot counts at t.
func (m model) overlap(t *big.Int) *big.Rat {
	if m.o.Trailing == movingwindow.Whole {
		return big.NewRat(1, 1)
	}
	weight, grain := m.weights()
	left := new(big.Int).Sub(m.width(), new(big.Int).Mod(t, m.width()))
	left.Add(left, grain).Sub(left, big.NewInt(1)).Div(left, grain)
	if left.Cmp(weight) > 0 {
		left = weight
	}
	return new(big.Rat).SetFrac(left, weight)
}

// most returns the largest sum of the counts after a charge.
func (m model) most() *big.Int {
	weight := big.NewInt(1)
	if m.o.Trailing == movingwindow.Weighted {
		weight, _ = m.weights()
	}
	most := weight.Div(big.NewInt(algo.MaxLevel), weight)
	return most.Sub(most, big.NewInt(m.o.Limit.Count))
}

// used returns the units that count at t.
func (m model) used(t *big.Int) *big.Rat {
	sum := new(big.Rat)
	for _, p := range m.log {
		units := new(big.Rat).SetInt(p.units)
		switch m.back(p, t).Cmp(m.slots()) {
		case 1:
			continue
		case 0:
			units.Mul(units, m.overlap(t))
		}
		sum.Add(sum, units)
	}
	return sum
}

// left returns the whole units left at t.
func (m model) left(t *big.Int) *big.Int {
	left := new(big.Rat).SetInt64(m.o.Limit.Count)
	left.Sub(left, m.used(t))
	return new(big.Int).Div(left.Num(), left.Denom())
}

// first returns the first instant from t on at which that many units are left.
func (m model) first(t, units *big.Int) *big.Int {
	lo := t
	hi := new(big.Int).Add(m.slots(), big.NewInt(1))
	hi.Mul(hi, m.width()).Add(hi, t) // everything has expired by then
	for lo.Cmp(hi) < 0 {
		mid := new(big.Int).Add(lo, hi)
		mid.Rsh(mid, 1)
		if m.left(mid).Cmp(units) >= 0 {
			hi = mid
		} else {
			lo = mid.Add(mid, big.NewInt(1))
		}
	}
	return lo
}

// do makes one operation. If no units are paid or given back, nothing changes.
func (m model) do(op policy.Op, at, cost int64) (next model, r algo.Result) {
	now, limit, units := big.NewInt(at), big.NewInt(m.o.Limit.Count), big.NewInt(cost)
	r.Limit, r.Cost = m.o.Limit.Count, cost
	if now.Cmp(m.latest) < 0 && m.used(m.latest).Sign() > 0 {
		now = m.latest
		r.Skew = until(now, at)
	}
	available := m.left(now)
	if r.Fresh = m.used(now).Sign() == 0; r.Fresh {
		r.Refilled = r.Limit
	} else {
		r.Available = m.left(m.latest).Int64()
		r.Refilled = available.Int64() - r.Available
	}
	fits := available.Cmp(units) >= 0
	isHeld := !m.o.PaidAt.IsZero()
	if isHeld {
		fits = m.total(m.selected, now).Cmp(units) >= 0
	}
	r.Allowed = op == policy.Refund || op == policy.Charge || fits
	next = m
	switch {
	case op == policy.Refund && !r.Fresh:
		next = m.without(units, now)
	case op == policy.Charge:
		if room := new(big.Int).Sub(m.most(), m.total(all, now)); room.Cmp(units) < 0 {
			units = room
		}
		if units.Sign() > 0 {
			next = m.with(units, now)
		}
	case op == policy.Step && fits && isHeld:
		if m.back(m.paidAt(), now).Sign() > 0 {
			next = m.without(units, now).with(units, now)
		}
	case op == policy.Step && fits:
		next = m.with(units, now)
	}
	left := next.left(now)
	r.Remaining = left.Int64()
	r.Paid = new(big.Int).Sub(available, left).Int64()
	switch {
	case r.Allowed:
	case isHeld || units.Cmp(limit) > 0:
		r.RetryAfter = algo.Never
	default:
		r.RetryAfter = until(next.first(now, units), at)
	}
	if left.Cmp(limit) < 0 {
		r.NextRefill = until(next.first(now, new(big.Int).Add(left, big.NewInt(1))), at)
		r.ResetAfter = until(next.first(now, limit), at)
	}
	return next, r
}

func (m model) with(units, now *big.Int) model {
	m.log = append(append([]payment{}, m.log...), payment{now, units})
	m.latest = now
	return m
}

// paidAt returns an empty payment at the time of Options.PaidAt.
func (m model) paidAt() payment { return payment{at: big.NewInt(algo.Instant(m.o.PaidAt))} }

// selected reports whether a payment has the slot of PaidAt, if it is set.
func (m model) selected(p payment) bool {
	return m.o.PaidAt.IsZero() || m.back(p, m.paidAt().at).Sign() == 0
}

func all(payment) bool { return true }

// without removes units from the newest selected payments that still count. If there are none, it changes nothing.
func (m model) without(units, now *big.Int) model {
	if m.total(m.selected, now).Sign() == 0 {
		return m
	}
	old := m.log
	m.log, m.latest = nil, now
	for i := len(old) - 1; i >= 0; i-- {
		p := old[i]
		if m.back(p, now).Cmp(m.slots()) > 0 {
			continue
		}
		removed := new(big.Int)
		if m.selected(p) {
			removed = p.units
		}
		if removed.Cmp(units) > 0 {
			removed = units
		}
		units = new(big.Int).Sub(units, removed)
		if p.units = new(big.Int).Sub(p.units, removed); p.units.Sign() > 0 {
			m.log = append([]payment{p}, m.log...)
		}
	}
	return m
}

// total returns the units of some payments that count at now, without weights.
func (m model) total(some func(payment) bool, now *big.Int) *big.Int {
	sum := new(big.Int)
	for _, p := range m.log {
		if some(p) && m.back(p, now).Cmp(m.slots()) <= 0 {
			sum.Add(sum, p.units)
		}
	}
	return sum
}

// until returns the time from an instant to another.
func until(end *big.Int, from int64) time.Duration {
	return time.Duration(end.Int64()-from) * time.Microsecond
}

func TestResultsEqualTheModel(t *testing.T) {
	random, rounds, renewed, released := sample.New(2, 4), policytest.Rounds(500), 0, 0
	for range rounds {
		var s movingwindow.State
		o, now := anyOptions(random), random.UpTo(algo.MaxInstant)
		m := newModel(o)
		width := m.width().Int64()
		taken := now // the time of a payment
		for range 12 {
			o.PaidAt = time.Time{}
			if o.Trailing == whole && random.Chance(40) {
				o.PaidAt = time.UnixMicro(sample.OneOf(random, taken, taken, now, max(0, taken-width), taken+width))
			}
			m.o = o
			o.Cost = random.Cost(algo.Result{Available: m.left(big.NewInt(now)).Int64(), Limit: o.Limit.Count})
			if random.IntN(50) == 0 {
				o.Cost = random.UpTo(math.MaxInt64)
			}
			op := policy.Op(random.IntN(6) % 4) // more steps and peeks
			next, want := m.do(op, now, o.Cost)
			after, r := suite.Do(t, s, op, time.UnixMicro(now), o)
			require.Equal(t, want, r, "%+v on %+v: %v at %d", o, m, op, now)
			switch {
			case !o.PaidAt.IsZero() && op == policy.Step && r.Allowed:
				renewed++
			case !o.PaidAt.IsZero() && r.Paid < 0:
				released++
			case r.Paid > 0:
				taken = now + r.Skew.Microseconds()
			}
			m, s = next, after
			if now = random.Time(now, want, o.Limit.Period, true); random.IntN(5) == 0 {
				now = min(now+width-now%width-1, algo.MaxInstant) // the last instant of a slot
			}
		}
	}
	require.Greater(t, renewed, rounds/10)
	require.Greater(t, released, rounds/10)
}

// requireModel compares a result with that of the model, if a step with these options can return
// the state.
func requireModel(t *testing.T, s movingwindow.State, op policy.Op, now int64, o movingwindow.Options, r algo.Result) {
	t.Helper()
	m := newModel(o)
	if s.Width != m.width().Int64() || s.At < 0 || s.At > algo.MaxInstant {
		return
	}
	counts := s.LongCounts
	if counts == nil {
		counts = s.Counts[:]
	}
	room := new(big.Int).Add(m.most(), big.NewInt(o.Limit.Count))
	m.latest = big.NewInt(s.At)
	for i, units := range counts {
		begin := new(big.Int).Sub(m.slot(m.latest), big.NewInt(int64(i)))
		begin.Mul(begin, m.width())
		if units < 0 || room.Sub(room, big.NewInt(units)).Sign() < 0 {
			return
		}
		if units > 0 && int64(i) <= m.slots().Int64() {
			m.log = slices.Insert(m.log, 0, payment{begin, big.NewInt(units)})
		}
	}
	_, want := m.do(op, now, max(o.Cost, 1))
	require.Equal(t, want, r)
}
