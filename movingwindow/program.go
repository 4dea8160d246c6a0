package movingwindow

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

// Program implements [algo.Portable]. There is no program if Count is 2^52 or more, if a slot is
// 2^51 ns (26 days) or longer, or if the window and one slot together are 2^53 ns (104 days) or
// longer.
func (p Policy) Program() (algo.Program, bool) {
	w := p.window()
	if w.slots == 0 || w.limit >= algo.MaxExact/2 || w.width >= algo.MaxExact/4 ||
		w.width*int64(w.slots+1) >= algo.MaxExact {
		return algo.Program{}, false
	}
	whole := int64(0)
	if w.whole {
		whole = 1
	}
	return algo.Program{Name: "movingwindow", Lua: stepLua, SQL: stepSQL, Args: []int64{w.limit, w.width, int64(w.slots), whole}}, true
}
