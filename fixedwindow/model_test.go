package fixedwindow_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

// A model is the first payment of a window and the units paid in it. The zero model is a new key.
type model struct{ opened, paid int64 }

// end returns the end of the window, in exact numbers.
func (m model) end(o fixedwindow.Options) int64 {
	period := o.Limit.Period.Microseconds()
	if o.Align == fixedwindow.AlignFirst {
		return m.opened + period
	}
	offset := big.NewInt(o.Offset.Microseconds())
	window := new(big.Int).Sub(big.NewInt(m.opened), offset)
	window.Div(window, big.NewInt(period)).Add(window, big.NewInt(1)) // the number of the next window
	return window.Mul(window, big.NewInt(period)).Add(window, offset).Int64()
}

// do makes one operation. If nothing is paid, nothing changes.
func (m model) do(op policy.Op, now, cost int64, o fixedwindow.Options) (next model, r algo.Result) {
	wait := func(until int64) time.Duration { return time.Duration(until-now) * time.Microsecond }
	next = m
	r.Limit, r.Cost = o.Limit.Count, cost
	if r.Fresh = m.paid == 0 || now >= m.end(o); r.Fresh {
		next = model{opened: now}
		r.Refilled = r.Limit
	} else {
		r.Available, r.Skew = r.Limit-m.paid, max(0, wait(m.opened))
	}
	fits := cost <= r.Limit-next.paid
	r.Allowed = op == policy.Refund || op == policy.Charge || fits
	switch {
	case op == policy.Refund:
		r.Paid = -min(cost, next.paid)
	case op == policy.Charge:
		r.Paid = min(cost, algo.MaxLevel-next.paid)
	case op == policy.Step && fits:
		r.Paid = cost
	}
	next.paid += r.Paid
	r.Remaining = r.Limit - next.paid
	switch {
	case r.Allowed:
	case cost > r.Limit:
		r.RetryAfter = algo.Never
	default:
		r.RetryAfter = wait(next.end(o))
	}
	switch {
	case next.paid > 0:
		r.NextRefill, r.ResetAfter = wait(next.end(o)), wait(next.end(o))
	default:
		next = model{}
	}
	if r.Paid == 0 {
		next = m
	}
	return next, r
}

// The limit, the alignment and the offset may change at any time.
func TestResultsEqualTheModel(t *testing.T) {
	random := sample.New(2, 2)
	for range policytest.Rounds(10_000) {
		o, now := anyOptions(random), random.UpTo(algo.MaxInstant)
		var s fixedwindow.State
		var m model
		for range 12 {
			if random.IntN(8) == 0 {
				o = anyOptions(random)
			}
			o.Cost = random.Cost(fixedwindow.Peek(s, time.UnixMicro(now), o))
			if random.IntN(50) == 0 {
				o.Cost = random.UpTo(math.MaxInt64)
			}
			op := policy.Op(random.IntN(6) % 4) // more steps and peeks
			next, r := kit.CallBoth(t, s, op, time.UnixMicro(now), o)
			want, expected := m.do(op, now, o.Cost, o)
			require.Equal(t, expected, r, "%v of %d at %d under %+v on %+v", op, o.Cost, now, o, s)
			require.Equal(t, fixedwindow.State{Start: want.opened, Used: want.paid}, next)
			m, s = want, next
			now = random.Time(now, r, o.Limit.Period, true)
		}
	}
}
