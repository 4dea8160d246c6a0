package backtest

import (
	"slices"
	"time"
)

// Bins is the largest number of bins of a Timeline.
const Bins = 300

// Timeline counts requests over time in bins of equal width. As time goes on the bins become
// wider, so there are never more than [Bins]. The widths are round: from a second to a day, then
// doubles of a day.
type Timeline struct {
	Start   time.Time // of the first bin, a multiple of Width
	Width   time.Duration
	Allowed [][]int64 // by policy, then by bin
	Denied  [][]int64

	used int // bins; the last one is that of the latest request
}

func newTimeline(policies int) Timeline {
	t := Timeline{Allowed: make([][]int64, policies), Denied: make([][]int64, policies)}
	for p := range policies {
		t.Allowed[p], t.Denied[p] = make([]int64, Bins), make([]int64, Bins)
	}
	return t
}

// at makes the bin of a request the last one.
func (t *Timeline) at(at time.Time) {
	if t.used == 0 {
		t.Start, t.Width = at.UTC().Truncate(widths[0]), widths[0]
	}
	for at.Sub(t.Start) >= Bins*t.Width {
		t.widen()
	}
	t.used = int(at.Sub(t.Start)/t.Width) + 1
}

// count counts a request in the last bin.
func (t *Timeline) count(policy int, allowed bool) {
	if allowed {
		t.Allowed[policy][t.used-1]++
	} else {
		t.Denied[policy][t.used-1]++
	}
}

// widths are those of bins up to a day, each a multiple of the one before.
var widths = [...]time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// widen makes the bins wider. Their starts stay multiples of their width.
func (t *Timeline) widen() {
	n := time.Duration(2)
	if i := slices.IndexFunc(widths[:], func(w time.Duration) bool { return w > t.Width }); i >= 0 {
		n = widths[i] / t.Width
	}
	before := time.Duration(t.Start.UnixNano()) / t.Width % n
	t.Start = t.Start.Add(-before * t.Width)
	t.Width *= n
	for _, counts := range slices.Concat(t.Allowed, t.Denied) {
		wide := make([]int64, Bins)
		for i, count := range counts {
			wide[(i+int(before))/int(n)] += count
		}
		copy(counts, wide)
	}
}

// done returns the timeline without unused bins.
func (t *Timeline) done() Timeline {
	d := Timeline{Start: t.Start, Width: t.Width}
	for p := range t.Allowed {
		d.Allowed = append(d.Allowed, t.Allowed[p][:t.used])
		d.Denied = append(d.Denied, t.Denied[p][:t.used])
	}
	return d
}
