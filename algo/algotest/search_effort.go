package algotest

import (
	"math"
	"testing"

	"github.com/sluice-go/sluice/algo"
)

// effort limits the searches. It counts calls of the policy, not time, so that every run is
// the same.
type effort struct {
	limits int // test every n-th of the small limits
	layer  int // states to keep at each depth
	tries  int // events to try from each state
	depth  int // events in a row
	checks int // calls to check the states of one depth, for each small limit
	random int // calls for random histories
	bound  int // calls of the adversary, for each small limit
}

var (
	thorough = effort{limits: 1, layer: 16, tries: 16, depth: 4, checks: 350, random: 40_000, bound: 40_000}
	brief    = effort{limits: 5, layer: 10, tries: 12, depth: 4, checks: 500, random: 12_000, bound: 5_000}
)

// Brief reports whether searches should be short: with testing.Short, and under the race
// detector, which is slow and finds nothing in pure functions.
func Brief() bool { return raceEnabled || testing.Short() }

// exhaustive is the largest product of count and period for which a thorough search tries
// every event. Larger products have too many states for a test that runs on every commit.
const exhaustive = 3

func (e effort) forLimit(l algo.Limit) effort {
	if e.limits == 1 && l.Count*int64(l.Period) <= exhaustive {
		e.layer, e.tries, e.checks = 1_000, math.MaxInt, 30_000
	}
	return e
}
