package movingwindow_test

import (
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

	slots, width *big.Int
	// The weight of a whole slot, and how many microseconds it takes to lose one. They are the largest for which a full
	// window weighs less than 2^50.
	weight, grain *big.Int
}

type payment struct{ at, units *big.Int }

func newModel(o movingwindow.Options) model {
	m := model{o: o, latest: big.NewInt(0), slots: big.NewInt(max(int64(o.Slots), 1))}
	width := new(big.Int).Add(big.NewInt(o.Limit.Period.Microseconds()), m.slots)
	m.width = width.Div(width.Sub(width, big.NewInt(1)), m.slots)
	weight := func(grain int64) *big.Int { return new(big.Int).Div(m.width, big.NewInt(grain)) }
	grain := 1 + int64(sort.Search(int(m.width.Int64()), func(i int) bool {
		full := new(big.Int).Mul(weight(int64(i)+1), big.NewInt(o.Limit.Count))
		return full.BitLen() <= 50
	}))
	m.weight, m.grain = weight(grain), big.NewInt(grain)
	return m
}

// modelOf returns the model of a state. Every unit counts as if it had been paid at the newest instant of its slot.
func modelOf(s movingwindow.State, o movingwindow.Options) model {
	m := newModel(o)
	if m.latest = big.NewInt(s.At); s.Width == 0 {
		return m
	}
	counts := s.LongCounts
	if counts == nil {
		counts = s.Counts[:]
	}
	newest, left := s.At, m.most().Int64()+o.Limit.Count
	sum := int64(0)
	for _, units := range counts {
		sum += units
	}
	fits := s.Width == m.width.Int64() && sum <= left
	if !fits {
		left = m.most().Int64() // so that a step fits
	}
	for _, units := range counts {
		p := payment{big.NewInt(newest), big.NewInt(min(units, left))}
		if units > 0 && (fits || m.back(p, m.latest).Cmp(m.slots) <= 0) {
			m.log = slices.Insert(m.log, 0, p)
			left -= p.units.Int64()
		}
		newest = max(newest-newest%s.Width-1, 0)
	}
	return m
}

// state returns the state of the model.
func (m model) state() movingwindow.State {
	counts := make([]int64, 0, len(m.log))
	for _, p := range m.log {
		age := m.back(p, m.latest)
		if age.Cmp(m.slots) > 0 {
			continue
		}
		counts = append(counts, make([]int64, max(0, int(age.Int64())+1-len(counts)))...)
		counts[age.Int64()] += p.units.Int64()
	}
	switch {
	case len(counts) == 0:
		return movingwindow.State{}
	case len(counts) > 17:
		return movingwindow.State{At: m.latest.Int64(), Width: m.width.Int64(), LongCounts: counts}
	}
	return movingwindow.State{At: m.latest.Int64(), Width: m.width.Int64(), Counts: few(counts...)}
}

// operate is the model of an operation.
func operate(s movingwindow.State, op policy.Op, now int64, o movingwindow.Options) (movingwindow.State, algo.Result) {
	next, r := modelOf(s, o).do(op, now, o.Cost)
	return next.state(), r
}

func (m model) slot(t *big.Int) *big.Int { return new(big.Int).Div(t, m.width) }

// back returns the number of slots from a payment to t.
func (m model) back(p payment, t *big.Int) *big.Int {
	return new(big.Int).Sub(m.slot(t), m.slot(p.at))
}

// overlap returns how much of the trailing slot counts at t.
func (m model) overlap(t *big.Int) *big.Rat {
	if m.o.Trailing == movingwindow.Whole {
		return big.NewRat(1, 1)
	}
	left := new(big.Int).Sub(m.width, new(big.Int).Mod(t, m.width))
	left.Add(left, m.grain).Sub(left, big.NewInt(1)).Div(left, m.grain)
	if left.Cmp(m.weight) > 0 {
		left = m.weight
	}
	return new(big.Rat).SetFrac(left, m.weight)
}

// most returns the largest sum of the counts after a charge.
func (m model) most() *big.Int {
	most := big.NewInt(algo.MaxLevel)
	if m.o.Trailing == movingwindow.Weighted {
		most.Div(most, m.weight)
	}
	return most.Sub(most, big.NewInt(m.o.Limit.Count))
}

// used returns the units that count at t.
func (m model) used(t *big.Int) *big.Rat {
	sum := new(big.Rat)
	for _, p := range m.log {
		units := new(big.Rat).SetInt(p.units)
		switch m.back(p, t).Cmp(m.slots) {
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
	hi := new(big.Int).Add(m.slots, big.NewInt(1))
	hi.Mul(hi, m.width).Add(hi, t) // everything has expired by then
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
	if now.Cmp(m.latest) < 0 && len(m.log) > 0 {
		now = m.latest
	}
	available := m.left(now)
	if r.Fresh = m.used(now).Sign() == 0; r.Fresh {
		r.Refilled = r.Limit
	} else {
		r.Skew = max(0, until(now, at))
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
		next = m.without(units, now).with(units, now)
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
		if m.back(p, now).Cmp(m.slots) > 0 {
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
		if some(p) && m.back(p, now).Cmp(m.slots) <= 0 {
			sum.Add(sum, p.units)
		}
	}
	return sum
}

// until returns the time from an instant to another.
func until(end *big.Int, from int64) time.Duration {
	return time.Duration(end.Int64()-from) * time.Microsecond
}

// The units of the slot of PaidAt are moved, and given back.
func TestHeldUnitsEqualTheModel(t *testing.T) {
	random, rounds, renewed, released := sample.New(2, 4), policytest.Rounds(500), 0, 0
	for range rounds {
		var s movingwindow.State
		o, now := anyOptions(random), random.UpTo(algo.MaxInstant)
		o.Trailing = whole
		width := newModel(o).width.Int64()
		taken := now // the time of a payment
		for range 12 {
			o.PaidAt = time.Time{}
			o.Cost = random.Cost(movingwindow.Peek(s, time.UnixMicro(now), o))
			if random.Chance(60) {
				o.PaidAt = time.UnixMicro(sample.OneOf(random, taken, taken, now, max(0, taken-width), taken+width))
			}
			op := policy.Op(random.IntN(6) % 4) // more steps and peeks
			next, r := suite.Do(t, s, op, time.UnixMicro(now), o)
			switch {
			case !o.PaidAt.IsZero() && op == policy.Step && r.Allowed:
				renewed++
			case !o.PaidAt.IsZero() && r.Paid < 0:
				released++
			case r.Paid > 0:
				taken = now + r.Skew.Microseconds()
			}
			s, now = next, random.Time(now, r, o.Limit.Period, true)
		}
	}
	require.Greater(t, renewed, rounds/10)
	require.Greater(t, released, rounds/10)
}
