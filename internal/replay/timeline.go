package replay

import "time"

// Bins is the most stretches of time that a Timeline is cut into.
const Bins = 240

// Timeline counts requests over time in stretches of equal width, which widen
// as time goes on so that there are never more than [Bins].
type Timeline struct {
	Start   time.Time // of the first stretch, a multiple of Width
	Width   time.Duration
	Allowed [][]int64 // by policy, then by stretch
	Denied  [][]int64

	start, width int64
	used         int
	bin          int
}

func newTimeline(policies int) Timeline {
	t := Timeline{Allowed: make([][]int64, policies), Denied: make([][]int64, policies)}
	for p := range policies {
		t.Allowed[p], t.Denied[p] = make([]int64, Bins), make([]int64, Bins)
	}
	return t
}

// at makes the stretch that now falls in the current one. Time does not step
// back.
func (t *Timeline) at(now int64) {
	if t.used == 0 {
		t.width = int64(time.Second)
		t.start = now - now%t.width
	}
	for (now-t.start)/t.width >= Bins {
		t.widen()
	}
	t.bin = int((now - t.start) / t.width)
	t.used = t.bin + 1
}

// widen doubles the width of the stretches, keeping their starts multiples of
// it.
func (t *Timeline) widen() {
	odd := int(t.start / t.width % 2)
	t.start -= int64(odd) * t.width
	t.width *= 2
	for _, counts := range [...][][]int64{t.Allowed, t.Denied} {
		for _, c := range counts {
			halve(c, odd)
		}
	}
}

func halve(c []int64, odd int) {
	wide := make([]int64, Bins)
	for i, n := range c {
		wide[(i+odd)/2] += n
	}
	copy(c, wide)
}

// done is the timeline cut to what was used.
func (t *Timeline) done() Timeline {
	d := Timeline{Start: time.Unix(0, t.start).UTC(), Width: time.Duration(t.width)}
	for p := range t.Allowed {
		d.Allowed = append(d.Allowed, t.Allowed[p][:t.used])
		d.Denied = append(d.Denied, t.Denied[p][:t.used])
	}
	return d
}
