package movingwindow

import (
	"math"
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// An account is a key's counts as they stand at now, or at the last paid step if
// that is later.
type account struct {
	*window
	state *State
	now   int64 // as told

	begin int64 // of the current slot, the one that the account stands in
	into  int64 // how far it stands into that slot
	age   int64 // how many slots the newest count of the state is old

	recent   int64 // units in the window's slots
	trailing int64 // units in the slot before these
	surplus  int64 // of what those count for; see share
	left     int64 // units to spend
}

// open settles the counts, which come as of the last paid step, at now.
func (a *account) open(r *algo.Result) {
	s, w, at := a.state, a.window, a.now
	recent, trailing := a.recent, a.trailing
	if recent|trailing != 0 { // with nothing used there is no state to have a time
		at = max(at, s.At)
	}
	a.into = int64(uint64(at) % uint64(w.width))
	a.begin = at - a.into
	if s.At < a.begin {
		a.drop((a.begin-s.At-1)/w.width + 1)
	}
	r.Limit = w.limit
	if a.recent|a.trailing == 0 {
		r.Fresh, r.Refilled, a.left = true, w.limit, w.limit
		return
	}
	share, surplus := w.share(a.trailing, a.into)
	a.surplus, a.left = surplus, w.limit-a.recent-share
	r.Skew = time.Duration(at - a.now)
	r.Refilled = a.refilled(at, recent, trailing)
	r.Available = a.left - r.Refilled
}

// refilled is how much less is counted than was as of the last paid step: then, so
// many recent units and trailing ones.
func (a *account) refilled(at, recent, trailing int64) int64 {
	before := a.state.At
	if a.age > 0 {
		share, _ := a.share(trailing, before-(a.begin-a.age*a.width))
		return a.left - (a.limit - recent - share)
	}
	if before == at || trailing == 0 || a.whole {
		return 0
	}
	return a.returned(at - before)
}

// drop lets the counts grow older by that many slots.
func (a *account) drop(slots int64) {
	a.age = slots
	a.trailing = 0
	if slots > int64(a.slots) {
		a.recent = 0
		return
	}
	counts := a.state.counts()
	counts = counts[:min(a.slots, len(counts))]
	n := a.slots - int(slots)
	if n >= len(counts) {
		return
	}
	a.trailing = counts[n]
	for _, c := range counts[n:] {
		a.recent -= c
	}
}

// share is what a trailing count counts for, that far into the slot after the
// window's: rounded up to whole units, which is surplus/width of a unit too much.
// Whole units are decided alike by this and by the exact share.
func (w *window) share(count, into int64) (share, surplus int64) {
	if count == 0 || w.whole {
		return count, 0
	}
	width := uint64(w.width)
	q, rest := divide(uint64(count), width-uint64(into), width)
	if rest == 0 {
		return int64(q), 0
	}
	return int64(q) + 1, int64(width - rest)
}

// divide is floor(a*b/c) and the remainder, where a*b/c < 2^64.
func divide(a, b, c uint64) (q, rest uint64) {
	hi, lo := bits.Mul64(a, b)
	if hi == 0 { // the same, and faster
		q = lo / c
		return q, lo - q*c
	}
	return bits.Div64(hi, lo, c)
}

// returned is how much less the trailing units count for, weighted, than they did
// so long ago in the current slot.
func (a *account) returned(ago int64) int64 {
	hi, lo := bits.Mul64(uint64(a.trailing), uint64(ago))
	lo, borrow := bits.Sub64(lo, uint64(a.surplus), 0)
	switch {
	case hi < borrow || hi == borrow && lo == 0:
		return 0
	case hi == borrow && lo <= uint64(a.width): // the common case needs no division
		return 1
	}
	q, rest := bits.Div64(hi-borrow, lo, uint64(a.width))
	if rest > 0 {
		q++
	}
	return int64(q)
}

// wait is how long until there are that many units, more than there are now.
//
// With every slot that passes, the oldest of the counts that fill the window
// begins to trail. What decides is the first to do so whose going, with that of
// all older ones, leaves room: the units fit once no more than room of it counts.
// It is always more than that, or the units would have fit before.
func (a *account) wait(units int64) time.Duration {
	if units > a.limit {
		return algo.Never
	}
	counts := a.state.counts()
	n := a.slots - int(a.age)
	k := min(n, len(counts))
	room, trailing := a.limit-units-a.recent, a.trailing
	for room < 0 {
		k--
		trailing = counts[k]
		room += trailing
	}
	gone := uint64(n-k+1) * uint64(a.width)
	if !a.whole {
		early, _ := divide(uint64(room), uint64(a.width), uint64(trailing))
		gone -= early
	}
	return a.until(uint64(a.begin) + gone)
}

// lapse is how long until the newest count has trailed.
func (a *account) lapse() time.Duration {
	counts, k := a.state.counts(), 0
	for counts[k] == 0 {
		k++
	}
	slots := a.slots + 1 - int(a.age) - k
	return a.until(uint64(a.begin) + uint64(slots)*uint64(a.width))
}

// until is how long until an instant, or until the last of int64 if it is later.
func (a *account) until(instant uint64) time.Duration {
	return time.Duration(int64(min(instant, math.MaxInt64)) - a.now)
}

// turn makes the state that of the account, with the current slot as its newest.
func (a *account) turn() {
	s := a.state
	if a.recent|a.trailing == 0 {
		*s = State{Width: a.width}
	} else if a.age > 0 || s.Many != nil {
		s.shift(int(a.age), a.slots)
	}
	s.At = a.begin + a.into
	a.age = 0
}

// pay counts units in the current slot.
func (a *account) pay(units int64, r *algo.Result) {
	a.turn()
	a.state.counts()[0] += units
	a.recent += units
	a.left -= units
	r.Paid = units
}

// repay takes units out of the counts, the newest first.
func (a *account) repay(units int64, r *algo.Result) {
	a.turn()
	counts := a.state.counts()
	for i := range counts[:min(a.slots, len(counts))] {
		back := min(units, counts[i])
		counts[i] -= back
		a.recent -= back
		units -= back
	}
	if units > 0 && len(counts) > a.slots {
		a.trailing = max(a.trailing-units, 0)
		counts[a.slots] = a.trailing
	}
	share, surplus := a.share(a.trailing, a.into)
	left := a.limit - a.recent - share
	r.Paid = a.left - left
	a.surplus, a.left = surplus, left
	if a.recent|a.trailing == 0 {
		*a.state = State{}
	}
}

// conclude completes the result with what stands now.
func (a *account) conclude(r *algo.Result) {
	r.Remaining = a.left
	if a.recent|a.trailing == 0 {
		return
	}
	r.ResetAfter = a.lapse()
	if a.trailing == 0 || a.whole {
		r.NextRefill = a.wait(a.left + 1)
		return
	}
	trailing := uint64(a.trailing)
	gone := (uint64(a.width-a.surplus) + trailing - 1) / trailing // one unit of it
	r.NextRefill = a.until(uint64(a.begin+a.into) + gone)
}
