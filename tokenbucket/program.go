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

// Program implements [algo.Portable]. There is no program if Period is 2^53 ns (104 days) or
// longer. With continuous refill let d be the greatest common divisor of Count and of Period
// in nanoseconds: there is none if Burst*Period/d is 2^52 or more. With interval refill there is
// none if the time to regain the burst is 2^52 ns (52 days) or longer.
func (p Policy) Program() (algo.Program, bool) {
	o := p.bound()
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
