package main

import (
	"fmt"
	"time"
)

// share returns the share of the requests that were admitted.
func (o outcome) share() float64 { return float64(o.admitted) / float64(o.requests) }

// worstPeriod and worstEver are multiples of the limit.
func (o outcome) worstPeriod() float64 { return float64(o.worst) / float64(limit.Count) }
func (o outcome) worstEver() float64   { return float64(o.bound) / float64(limit.Count) }

// overDenied returns the share of the denials that were unnecessary; 0 if there are no denials.
func (o outcome) overDenied() float64 {
	return float64(o.needless) / float64(max(1, len(o.waits)))
}

// mean returns 0 if there are no waits.
func mean(waits []time.Duration) time.Duration {
	var sum time.Duration
	for _, w := range waits {
		sum += w
	}
	return sum / time.Duration(max(1, len(waits)))
}

// p99 returns the 99th percentile of sorted waits; 0 if there are none.
func p99(waits []time.Duration) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	return waits[(99*len(waits)+99)/100-1]
}

func percent(share float64) string      { return fmt.Sprintf("%.1f%%", 100*share) }
func multiple(of float64) string        { return fmt.Sprintf("%.2f", of) }
func seconds(wait time.Duration) string { return fmt.Sprintf("%.1fs", wait.Seconds()) }
