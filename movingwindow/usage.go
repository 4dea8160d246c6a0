package movingwindow

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// usage is the use of a key at now, or at the last paid step if that is later.
type usage struct {
	*window
	state *State
	now   int64

	begin int64 // start of the current slot
	into  int64 // time since then
	age   int64 // number of slots from the newest count of the state to the current slot

	recent   int64 // units in the window's slots
	trailing int64 // units in the trailing slot
	surplus  int64 // by how much their share is rounded up; see share
	left     int64 // units to spend
}

// advance brings the counts, which are those of the last paid step, forward to now.
func (u *usage) advance(r *algo.Result) {
	s, w, at := u.state, u.window, u.now
	recent, trailing := u.recent, u.trailing
	if recent|trailing != 0 { // a key without units in use has no time
		at = max(at, s.At)
	}
	u.into = int64(uint64(at) % uint64(w.width))
	u.begin = at - u.into
	if s.At < u.begin {
		u.shift((u.begin-s.At-1)/w.width + 1)
	}
	r.Limit = w.Limit.Count
	if u.recent|u.trailing == 0 {
		r.Fresh, r.Refilled, u.left = true, w.Limit.Count, w.Limit.Count
		return
	}
	share, surplus := w.share(u.trailing, u.into)
	u.surplus, u.left = surplus, w.Limit.Count-u.recent-share
	r.Skew = time.Duration(at - u.now)
	before, _ := w.share(trailing, s.At-(u.begin-u.age*w.width))
	r.Available = w.Limit.Count - recent - before
	r.Refilled = u.left - r.Available
}

// shift makes the counts older by that many slots.
func (u *usage) shift(slots int64) {
	u.age = slots
	u.trailing = 0
	if slots > int64(u.slots) {
		u.recent = 0
		return
	}
	counts := u.state.counts()
	counts = counts[:min(u.slots, len(counts))]
	n := u.slots - int(slots)
	if n >= len(counts) {
		return
	}
	u.trailing = counts[n]
	for _, c := range counts[n:] {
		u.recent -= c
	}
}

// share returns how many units of a trailing count still count, that far into the current
// slot. It is rounded up to whole units, by surplus/width of a unit. Rounding does not change
// decisions, because costs are whole units.
func (w *window) share(count, into int64) (share, surplus int64) {
	if count == 0 || w.Trailing == Whole {
		return count, 0
	}
	share, rest := u128.Mul(count, w.width-into).DivMod(w.width)
	if rest == 0 {
		return share, 0
	}
	return share + 1, w.width - rest
}

// wait returns the time until that many units are left. units must exceed u.left.
//
// With every slot that passes, the oldest count in the window becomes the trailing one. The
// loop finds the count whose expiry, with that of all older counts, makes enough room. The
// units fit when at most room units of it still count. At first it counts for
// more than room, or else the units would have fit earlier.
func (u *usage) wait(units int64) time.Duration {
	if units > u.Limit.Count {
		return algo.Never
	}
	counts := u.state.counts()
	n := u.slots - int(u.age)
	k := min(n, len(counts))
	room, trailing := u.Limit.Count-units-u.recent, u.trailing
	for room < 0 {
		k--
		trailing = counts[k]
		room += trailing
	}
	gone := uint64(n-k+1) * uint64(u.width)
	if u.Trailing == Weighted {
		early, _ := u128.Mul(room, u.width).DivMod(trailing)
		gone -= uint64(early)
	}
	return u.until(uint64(u.begin) + gone)
}

// lapse returns the time until the newest count has left the window.
func (u *usage) lapse() time.Duration {
	counts, k := u.state.counts(), 0
	for counts[k] == 0 {
		k++
	}
	slots := u.slots + 1 - int(u.age) - k
	return u.until(uint64(u.begin) + uint64(slots)*uint64(u.width))
}

// until returns the time until an instant, or until math.MaxInt64 if that is earlier.
func (u *usage) until(instant uint64) time.Duration {
	return time.Duration(int64(min(instant, math.MaxInt64)) - u.now)
}

// update writes the counts back to the state, with the current slot as the newest.
func (u *usage) update() {
	s := u.state
	if u.recent|u.trailing == 0 {
		*s = State{Width: u.width}
	} else if u.age > 0 || s.LongCounts != nil {
		s.shift(int(u.age), u.slots)
	}
	s.At = u.begin + u.into
	u.age = 0
}

// pay adds units to the current slot.
func (u *usage) pay(units int64, r *algo.Result) {
	u.update()
	u.state.counts()[0] += units
	u.recent += units
	u.left -= units
	r.Paid = units
}

// giveBack subtracts units from the counts, the newest first.
func (u *usage) giveBack(units int64, r *algo.Result) {
	u.update()
	counts := u.state.counts()
	for i := range counts[:min(u.slots, len(counts))] {
		back := min(units, counts[i])
		counts[i] -= back
		u.recent -= back
		units -= back
	}
	if units > 0 && len(counts) > u.slots {
		u.trailing = max(u.trailing-units, 0)
		counts[u.slots] = u.trailing
	}
	share, surplus := u.share(u.trailing, u.into)
	left := u.Limit.Count - u.recent - share
	r.Paid = u.left - left
	u.surplus, u.left = surplus, left
	if u.recent|u.trailing == 0 {
		*u.state = State{}
	}
}

// complete sets the fields of r that depend on the next state.
func (u *usage) complete(r *algo.Result) {
	r.Remaining = u.left
	if u.recent|u.trailing == 0 {
		return
	}
	r.ResetAfter = u.lapse()
	if u.trailing == 0 || u.Trailing == Whole {
		r.NextRefill = u.wait(u.left + 1)
		return
	}
	trailing := uint64(u.trailing)
	gone := (uint64(u.width-u.surplus) + trailing - 1) / trailing // time in which one unit expires
	r.NextRefill = u.until(uint64(u.begin+u.into) + gone)
}
