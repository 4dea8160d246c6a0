package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// bounds describes the most that a rule can admit for one key in any second, minute, hour and
// day, and in any period of its own limits. It is in requests, or in bytes for cost: bytes.
func bounds(r *config.Rule) string {
	unit, each := "request", max(r.Cost.Units, 1)
	if r.Cost.Bytes {
		unit, each = "byte", 1
	}
	var all []string
	for i, interval := range intervals(r.Policy) {
		bound := r.Policy.Bound(interval)
		most := fmt.Sprint(bound / each)
		switch {
		case bound == math.MaxInt64: // math.MaxInt64 or more, see algo.Policy
			most = "too many to count"
		case i == 0:
			most = plural(bound/each, unit)
		}
		all = append(all, most+" in any "+intervalName(interval))
	}
	return "at most " + strings.Join(all, ", ")
}

// intervals returns the usual intervals and the periods of the policy, in ascending order.
func intervals(p algo.Policy) []time.Duration {
	all := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}
	for _, limit := range limits(p) {
		all = append(all, limit.Period)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func intervalName(d time.Duration) string {
	switch d {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return algo.FormatDuration(d)
}
