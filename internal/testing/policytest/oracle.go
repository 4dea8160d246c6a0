package policytest

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/tokenbucket"
)

// OracleOf returns the oracle of a policy of one of the four algorithms.
func OracleOf(p algo.Policy) algotest.Oracle {
	unused, _ := p.Peek(nil, time.Unix(0, 0), 1)
	switch p := p.(type) {
	case tokenbucket.Policy:
		if p.Options().Refill == tokenbucket.Interval {
			return algotest.IntervalBucket(p.Limit(), unused.Limit)
		}
	case fixedwindow.Policy:
		if o := p.Options(); o.Align == fixedwindow.AlignClock {
			return algotest.WindowByClock(o.Limit, o.Offset)
		}
		return algotest.WindowFromFirst(p.Limit())
	case movingwindow.Policy:
		o := p.Options()
		return algotest.MovingWindow(o.Limit, max(o.Slots, 1), o.Trailing == movingwindow.Whole)
	}
	return algotest.Bucket(p.Limit(), unused.Limit)
}
