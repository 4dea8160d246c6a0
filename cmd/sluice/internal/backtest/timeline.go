package backtest

import (
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
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

	start, width int64
	used         int // bins; the last one is that of the latest request
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
	now := algo.Instant(at)
	if t.used == 0 {
		t.width = second
		t.start = now - now%t.width
	}
	for (now-t.start)/t.width >= Bins {
		t.widen()
	}
	t.used = int((now-t.start)/t.width) + 1
}

// count counts a request in the last bin.
func (t *Timeline) count(policy int, allowed bool) {
	if allowed {
		t.Allowed[policy][t.used-1]++
	} else {
		t.Denied[policy][t.used-1]++
	}
}

// widths are in seconds, each a multiple of the one before.
var widths = [...]int64{1, 5, 10, 30, 60, 120, 600, 1800, 3600, 7200, 21600, 43200, 86400}

// widen makes the bins wider. Their starts stay multiples of their width.
func (t *Timeline) widen() {
	n := int64(2)
	i := slices.IndexFunc(widths[:], func(seconds int64) bool { return seconds*second > t.width })
	if i >= 0 {
		n = widths[i] * second / t.width
	}
	before := t.start / t.width % n
	t.start -= before * t.width
	t.width *= n
	for _, counts := range slices.Concat(t.Allowed, t.Denied) {
		wide := make([]int64, Bins)
		for i, count := range counts {
			wide[(int64(i)+before)/n] += count
		}
		copy(counts, wide)
	}
}

// done returns the timeline without unused bins.
func (t *Timeline) done() Timeline {
	d := Timeline{Start: time.UnixMicro(t.start).UTC(), Width: time.Duration(t.width) * time.Microsecond}
	for p := range t.Allowed {
		d.Allowed = append(d.Allowed, t.Allowed[p][:t.used])
		d.Denied = append(d.Denied, t.Denied[p][:t.used])
	}
	return d
}
