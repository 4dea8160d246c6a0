package httplimit

import (
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
)

// maxHeldWait is the longest wait that clients see after a denial by a rule for held units. Its RetryAfter is the time until units
// return by themselves. Usually other requests end long before that.
const maxHeldWait = time.Second

func isHolder(p algo.Policy) bool {
	_, ok := p.(algo.Holder)
	return ok
}

// holdsUnits reports whether the decision with these results holds units.
func holdsUnits(results []sluice.RuleResult) bool {
	for i := range results {
		if results[i].Paid > 0 && isHolder(results[i].Policy) {
			return true
		}
	}
	return false
}

// shownWait returns the wait that clients see if a result has this one.
func shownWait(result *sluice.RuleResult, wait time.Duration) time.Duration {
	if wait != algo.Never && isHolder(result.Policy) {
		return min(wait, maxHeldWait)
	}
	return wait
}
