package fixedwindow_test

import (
	"math/big"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/internal/policy"
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

// operate is the model of an operation. If nothing is paid, nothing changes.
func operate(s fixedwindow.State, op policy.Op, now int64, o fixedwindow.Options) (next fixedwindow.State, r algo.Result) {
	m, cost := model{s.Start, s.Used}, o.Cost
	wait := func(until int64) time.Duration { return time.Duration(until-now) * time.Microsecond }
	after := m
	r.Limit, r.Cost = o.Limit.Count, cost
	if r.Fresh = m.paid == 0 || now >= m.end(o); r.Fresh {
		after = model{opened: now}
		r.Refilled = r.Limit
	} else {
		r.Available, r.Skew = r.Limit-m.paid, max(0, wait(m.opened))
	}
	fits := cost <= r.Limit-after.paid
	r.Allowed = op == policy.Refund || op == policy.Charge || fits
	switch {
	case op == policy.Refund:
		r.Paid = -min(cost, after.paid)
	case op == policy.Charge:
		r.Paid = min(cost, algo.MaxLevel-after.paid)
	case op == policy.Step && fits:
		r.Paid = cost
	}
	after.paid += r.Paid
	r.Remaining = r.Limit - after.paid
	switch {
	case r.Allowed:
	case cost > r.Limit:
		r.RetryAfter = algo.Never
	default:
		r.RetryAfter = wait(after.end(o))
	}
	if after.paid == 0 {
		return fixedwindow.State{}, r
	}
	r.NextRefill, r.ResetAfter = wait(after.end(o)), wait(after.end(o))
	return fixedwindow.State{Start: after.opened, Used: after.paid}, r
}
