package movingwindow_test

import (
	"math/big"
	"math/bits"
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
// binary search. It uses exact fractions.
type model struct {
	o      movingwindow.Options
	log    []payment // in the order of time
	latest int64     // time of the last event that changed the log

	slots, width int64
	// The weight of a whole slot, and how many microseconds it takes to lose one. They are the largest for which a full
	// window weighs less than 2^50.
	weight, grain int64
}

type payment struct{ at, units int64 }

func newModel(o movingwindow.Options) model {
	m := model{o: o, slots: max(int64(o.Slots), 1)}
	m.width = (o.Limit.Period.Microseconds() + m.slots - 1) / m.slots
	m.grain = 1 + int64(sort.Search(int(m.width), func(i int) bool {
		high, full := bits.Mul64(uint64(m.width/int64(i+1)), uint64(o.Limit.Count))
		return high == 0 && full < 1<<50
	}))
	m.weight = m.width / m.grain
	return m
}

// modelOf returns the model of a state. Every unit counts as if it had been paid at the newest instant of its slot.
func modelOf(s movingwindow.State, o movingwindow.Options) model {
	m := newModel(o)
	if m.latest = s.At; s.Width == 0 {
		return m
	}
	counts := s.LongCounts
	if counts == nil {
		counts = s.Counts[:]
	}
	newest, left := s.At, m.most()+o.Limit.Count
	sum := int64(0)
	for _, units := range counts {
		sum += units
	}
	fits := s.Width == m.width && sum <= left
	if !fits {
		left = m.most() // so that a step fits
	}
	for _, units := range counts {
		p := payment{newest, min(units, left)}
		if units > 0 && (fits || m.back(p, m.latest) <= m.slots) {
			m.log = slices.Insert(m.log, 0, p)
			left -= p.units
		}
		newest = max(newest-newest%s.Width-1, 0)
	}
	return m
}

// state returns the state of the model.
func (m model) state() movingwindow.State {
	counts := make([]int64, 0, len(m.log))
	for _, p := range m.log {
		age := int(m.back(p, m.latest))
		if age > int(m.slots) {
			continue
		}
		counts = append(counts, make([]int64, max(0, age+1-len(counts)))...)
		counts[age] += p.units
	}
	switch {
	case len(counts) == 0:
		return movingwindow.State{}
	case len(counts) > 17:
		return movingwindow.State{At: m.latest, Width: m.width, LongCounts: counts}
	}
	return movingwindow.State{At: m.latest, Width: m.width, Counts: few(counts...)}
}

// operate is the model of an operation.
func operate(s movingwindow.State, op policy.Op, now int64, o movingwindow.Options) (movingwindow.State, algo.Result) {
	next, r := modelOf(s, o).do(op, now, o.Cost)
	return next.state(), r
}

// back returns the number of slots from a payment to t.
func (m model) back(p payment, t int64) int64 { return t/m.width - p.at/m.width }

// overlap returns how much of the trailing slot counts at t.
func (m model) overlap(t int64) *big.Rat {
	if m.o.Trailing == movingwindow.Whole {
		return big.NewRat(1, 1)
	}
	grains := (m.width - t%m.width + m.grain - 1) / m.grain
	return big.NewRat(min(grains, m.weight), m.weight)
}

// most returns the largest sum of the counts after a charge.
func (m model) most() int64 {
	if m.o.Trailing == movingwindow.Weighted {
		return algo.MaxLevel/m.weight - m.o.Limit.Count
	}
	return algo.MaxLevel - m.o.Limit.Count
}

// used returns the units that count at t.
func (m model) used(t int64) *big.Rat {
	sum := new(big.Rat)
	for _, p := range m.log {
		units := big.NewRat(p.units, 1)
		switch back := m.back(p, t); {
		case back > m.slots:
			continue
		case back == m.slots:
			units.Mul(units, m.overlap(t))
		}
		sum.Add(sum, units)
	}
	return sum
}

// left returns the whole units left at t.
func (m model) left(t int64) int64 {
	left := big.NewRat(m.o.Limit.Count, 1)
	left.Sub(left, m.used(t))
	return new(big.Int).Div(left.Num(), left.Denom()).Int64()
}

// wait returns the time from an instant to the first one from t on at which that many units are left.
func (m model) wait(from, t, units int64) time.Duration {
	longest := (m.slots + 1) * m.width // everything has expired by then
	first := t + int64(sort.Search(int(longest), func(i int) bool { return m.left(t+int64(i)) >= units }))
	return time.Duration(first-from) * time.Microsecond
}

// do makes one operation. If no units are paid or given back, nothing changes.
func (m model) do(op policy.Op, at, cost int64) (next model, r algo.Result) {
	now, limit := at, m.o.Limit.Count
	r.Limit, r.Cost = limit, cost
	if now < m.latest && len(m.log) > 0 {
		now = m.latest
	}
	available := m.left(now)
	if r.Fresh = m.used(now).Sign() == 0; r.Fresh {
		r.Refilled = r.Limit
	} else {
		r.Skew = time.Duration(now-at) * time.Microsecond
		r.Available = m.left(m.latest)
		r.Refilled = available - r.Available
	}
	fits := available >= cost
	isHeld := !m.o.PaidAt.IsZero()
	if isHeld {
		fits = m.total(m.selected, now) >= cost
	}
	r.Allowed = op == policy.Refund || op == policy.Charge || fits
	next = m
	switch {
	case op == policy.Refund && !r.Fresh:
		next = m.without(cost, now)
	case op == policy.Charge:
		if units := min(cost, m.most()-m.total(all, now)); units > 0 {
			next = m.with(units, now)
		}
	case op == policy.Step && fits && isHeld:
		next = m.without(cost, now).with(cost, now)
	case op == policy.Step && fits:
		next = m.with(cost, now)
	}
	r.Remaining = next.left(now)
	r.Paid = available - r.Remaining
	switch {
	case r.Allowed:
	case isHeld || cost > limit:
		r.RetryAfter = algo.Never
	default:
		r.RetryAfter = next.wait(at, now, cost)
	}
	if r.Remaining < limit {
		r.NextRefill = next.wait(at, now, r.Remaining+1)
		r.ResetAfter = next.wait(at, now, limit)
	}
	return next, r
}

func (m model) with(units, now int64) model {
	m.log = append(slices.Clone(m.log), payment{now, units})
	m.latest = now
	return m
}

// selected reports whether a payment has the slot of PaidAt, if it is set.
func (m model) selected(p payment) bool {
	return m.o.PaidAt.IsZero() || m.back(p, algo.Instant(m.o.PaidAt)) == 0
}

func all(payment) bool { return true }

// without removes units from the newest selected payments that still count. If there are none, it changes nothing.
func (m model) without(units, now int64) model {
	if m.total(m.selected, now) == 0 {
		return m
	}
	old := m.log
	m.log, m.latest = nil, now
	for _, p := range slices.Backward(old) {
		if m.back(p, now) > m.slots {
			continue
		}
		if m.selected(p) {
			removed := min(p.units, units)
			units -= removed
			p.units -= removed
		}
		if p.units > 0 {
			m.log = slices.Insert(m.log, 0, p)
		}
	}
	return m
}

// total returns the units of some payments that count at now, without weights.
func (m model) total(some func(payment) bool, now int64) (sum int64) {
	for _, p := range m.log {
		if some(p) && m.back(p, now) <= m.slots {
			sum += p.units
		}
	}
	return sum
}

// The units of the slot of PaidAt are moved, and given back.
func TestHeldUnitsEqualTheModel(t *testing.T) {
	random, rounds, renewed, released := sample.New(2, 4), policytest.Rounds(500), 0, 0
	for range rounds {
		var s movingwindow.State
		o, now := anyOptions(random), random.UpTo(algo.MaxInstant)
		o.Trailing = whole
		width := newModel(o).width
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
