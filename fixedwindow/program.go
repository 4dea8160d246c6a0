package fixedwindow

import (
	_ "embed"

	"github.com/sluice-go/sluice/algo"
)

var (
	//go:embed step.lua
	stepLua string
	//go:embed step.sql
	stepSQL string
)

var _ algo.Portable = Policy{}

// Program implements [algo.Portable]. There is no program if Count is 2^52 or more, or if Period
// is 2^52 ns (52 days) or longer.
func (p Policy) Program() (algo.Program, bool) {
	o := p.opts()
	period := int64(o.Limit.Period)
	if !o.valid() || o.Limit.Count >= algo.MaxExact/2 || period >= algo.MaxExact/2 {
		return algo.Program{}, false
	}
	offset := int64(o.Offset) % period
	if offset < 0 {
		offset += period
	}
	return algo.Program{Name: "fixedwindow", Lua: stepLua, SQL: stepSQL, Args: []int64{o.Limit.Count, period, int64(o.Align), offset}}, true
}
