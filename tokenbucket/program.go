package tokenbucket

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

// Program implements [algo.Portable]. There is no program in these cases:
//
//   - Period is 2^53 ns (104 days) or longer, Count is 2^53 or more, or Burst is 2^52 or more.
//   - Refill is Continuous, and Burst*Period/d is 2^52 or more. Period is in nanoseconds, and d is
//     the greatest common divisor of Count and Period.
//   - Refill is Interval, and refilling the burst takes 2^52 ns (52 days) or longer.
func (p Policy) Program() (algo.Program, bool) {
	o := p.opts()
	if o.Validate() != nil || int64(o.Limit.Period) >= algo.MaxExact || o.Limit.Count >= algo.MaxExact {
		return algo.Program{}, false
	}
	divisor := u128.GCD(o.speed(), int64(o.Limit.Period))
	period := int64(o.Limit.Period) / divisor
	if o.burst() >= algo.MaxExact/2 || !u128.Mul(o.refills(o.burst()), period).Less(u128.From(algo.MaxExact/2)) {
		return algo.Program{}, false
	}
	return algo.Program{Name: "tokenbucket", Lua: stepLua, SQL: stepSQL,
		Args: []int64{o.speed() / divisor, period, divisor, o.burst(), o.batch(), int64(o.Refill)}}, true
}
