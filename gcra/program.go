package gcra

import (
	_ "embed"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

var (
	//go:embed step.lua
	stepLua string
	//go:embed step.sql
	stepSQL string
)

var _ algo.Portable = Policy{}

// Program implements [algo.Portable]. There is no program if Period is 2^53 ns (104 days) or
// longer, if Count is 2^53 or more, or if Burst*Period/d is 2^52 or more. Period is in nanoseconds, and
// d is the greatest common divisor of Count and Period. For 10000/24h with the default burst
// Burst*Period/d is 8.64e13, which is far below 2^52.
func (p Policy) Program() (algo.Program, bool) {
	o := p.opts()
	if o.Validate() != nil || o.Limit.Count >= algo.MaxExact || int64(o.Limit.Period) >= algo.MaxExact {
		return algo.Program{}, false
	}
	divisor := u128.GCD(o.Limit.Count, int64(o.Limit.Period))
	count, period := o.Limit.Count/divisor, int64(o.Limit.Period)/divisor
	if !u128.Mul(o.burst(), period).Less(u128.From(algo.MaxExact / 2)) {
		return algo.Program{}, false
	}
	return algo.Program{Name: "gcra", Lua: stepLua, SQL: stepSQL, Args: []int64{count, period, divisor, o.burst()}}, true
}
