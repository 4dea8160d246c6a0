package algotest

import (
	"math"
	"testing"

	"github.com/sluice-go/sluice/algo"
)

// effort is how long the searches are. It is counted in calls of the policy, so
// that every run does the same.
type effort struct {
	limits int // every so many-th of the small limits is taken
	layer  int // states kept at each depth
	tries  int // events tried from each state
	depth  int // events in a row
	judged int // calls for the states of one depth under one small limit
	random int // calls for random histories
	game   int // calls for the adversaries of one small limit
}

var (
	thorough = effort{limits: 1, layer: 16, tries: 16, depth: 4, judged: 350, random: 40_000, game: 40_000}
	brief    = effort{limits: 5, layer: 10, tries: 12, depth: 4, judged: 500, random: 12_000, game: 5_000}
)

// Brief reports whether searches are to be brief: with testing.Short, and under
// the race detector, which slows them down and has nothing to find in pure functions.
func Brief() bool { return raceEnabled || testing.Short() }

// complete is the product of count and period up to which a thorough search
// tries every event and judges every state that comes of it, or a sample where
// there are more than a search of every commit has time for.
const complete = 3

func (e effort) within(l algo.Limit) effort {
	if e.limits == 1 && l.Count*int64(l.Period) <= complete {
		e.layer, e.tries, e.judged = 1_000, math.MaxInt, 30_000
	}
	return e
}
