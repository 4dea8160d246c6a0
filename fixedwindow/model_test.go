package fixedwindow_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/algorithmtest"
	"github.com/sluice-go/sluice/internal/sample"
)

// A model is the end of the window and the units paid in it. It uses exact numbers.
type model struct {
	o      fixedwindow.Options
	opened *big.Int // the first payment
	end    *big.Int
	paid   *big.Int
}

func newModel(o fixedwindow.Options) model {
	return model{o, big.NewInt(0), big.NewInt(0), big.NewInt(0)}
}

// endOf returns the end of a window that is opened at t.
func (m model) endOf(t *big.Int) *big.Int {
	period := big.NewInt(int64(m.o.Limit.Period))
	if m.o.Align == fixedwindow.AlignFirst {
		return period.Add(period, t)
	}
	offset := big.NewInt(int64(m.o.Offset))
	number := new(big.Int).Sub(t, offset)
	number.Div(number, period).Add(number, big.NewInt(1))
	return number.Mul(number, period).Add(number, offset)
}

// do makes one operation. If nothing is paid, nothing changes.
func (m model) do(op algorithm.Op, at, cost int64) (next model, r algo.Result) {
	now := big.NewInt(at)
	limit := big.NewInt(m.o.Limit.Count)
	r.Limit, r.Cost = m.o.Limit.Count, cost
	next = m
	if r.Fresh = m.paid.Sign() == 0 || now.Cmp(m.end) >= 0; r.Fresh {
		next.opened, next.end, next.paid = now, m.endOf(now), big.NewInt(0)
		r.Refilled = r.Limit
	} else {
		r.Available = new(big.Int).Sub(limit, m.paid).Int64()
		r.Skew = algorithmtest.Wait(m.opened, at)
	}
	r.Skew = max(r.Skew, 0)

	available := new(big.Int).Sub(limit, next.paid)
	fits := available.Cmp(big.NewInt(cost)) >= 0
	r.Allowed = op == algorithm.Refund || op == algorithm.Charge || fits
	switch {
	case op == algorithm.Refund:
		r.Paid = -min(cost, next.paid.Int64())
	case op == algorithm.Charge || op == algorithm.Step && fits:
		r.Paid = cost
	}
	next.paid = new(big.Int).Add(next.paid, big.NewInt(r.Paid))
	r.Remaining = new(big.Int).Sub(limit, next.paid).Int64()
	switch {
	case r.Allowed:
	case cost > r.Limit:
		r.RetryAfter = algo.Never
	default:
		r.RetryAfter = algorithmtest.Wait(next.end, at)
	}
	if next.paid.Sign() > 0 {
		r.NextRefill, r.ResetAfter = algorithmtest.Wait(next.end, at), algorithmtest.Wait(next.end, at)
	}
	if r.Paid == 0 {
		next = m
	}
	return next, r
}

// run compares random operations with the model.
func run(t *testing.T, random sample.Source, o fixedwindow.Options, answer func(op algorithm.Op, at, cost int64) algo.Result) {
	m := newModel(o)
	now := random.UpTo(algo.MaxInstant)
	for range 12 {
		_, look := m.do(algorithm.Peek, now, 1)
		left := look.Remaining
		cost := random.Cost(look)
		op := algorithm.Op(random.IntN(6) % 4) // more steps and peeks
		if op == algorithm.Charge && (cost > algo.MaxCount || look.Limit-left > algo.MaxCount-cost) {
			op = algorithm.Step
		}
		next, want := m.do(op, now, cost)
		require.Equal(t, want, answer(op, now, cost), "%v on %+v: operation %d at %d, cost %d", o, m, op, now, cost)
		m = next

		now = random.Time(now, want, o.Limit.Period, true)
	}
}

func TestResultsEqualTheModel(t *testing.T) {
	random := sample.New(2, 2)
	for range algorithmtest.Rounds(5000) {
		o := anyOptions(random)
		var s fixedwindow.State
		run(t, random, o, func(op algorithm.Op, at, cost int64) (r algo.Result) {
			s, r = kit.CallBoth(t, s, op, time.Unix(0, at), kit.WithCost(o, cost))
			return r
		})
	}
}

func TestWindowEndsByTheNewOptions(t *testing.T) {
	random := sample.New(2, 3)
	for range algorithmtest.Rounds(5000) {
		first, then := anyOptions(random), anyOptions(random)
		at := random.UpTo(algo.MaxInstant)
		s, _ := kit.CallAt(fixedwindow.State{}, algorithm.Charge, at, first, 5)
		end := newModel(then).endOf(big.NewInt(at))
		r := fixedwindow.Peek(s, time.Unix(0, at), then)
		require.Equal(t, then.Limit.Count-5, r.Remaining)
		require.Equal(t, algorithmtest.Wait(end, at), r.ResetAfter, "%+v, then %+v, at %d", first, then, at)
	}
}
