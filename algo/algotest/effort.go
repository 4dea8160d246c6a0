package algotest

import (
	"math"

	"github.com/sluice-go/sluice/algo"
)

// effort is how long the searches are. It is counted in calls of the policy, so
// that every run does the same.
type effort struct {
	limits int // every so many-th of the small limits is taken
	layer  int // states kept at each depth
	tries  int // events tried from each state
	depth  int // events in a row
	small  int // calls for all the small limits
	random int // calls for random histories
}

var (
	thorough = effort{limits: 1, layer: 16, tries: 16, depth: 4, small: 150_000, random: 50_000}
	brief    = effort{limits: 5, layer: 10, tries: 12, depth: 4, small: 30_000, random: 12_000}
)

// complete is the product of count and period up to which a thorough search
// tries every event and judges every state that comes of it.
const complete = 3

func (e effort) within(l algo.Limit) effort {
	if e.limits == 1 && l.Count*int64(l.Period) <= complete {
		e.layer, e.tries, e.small = math.MaxInt, math.MaxInt, math.MaxInt
	}
	return e
}
