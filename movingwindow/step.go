package movingwindow

import (
	"math"
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// Step decides a request of o.Cost units at now. It is total: any state, any
// time and any options give an answer. Options that [New] would refuse deny
// everything, for ever.
func Step(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = s
	w := o.window()
	if !step(&next, algo.Instant(now), &w, &r) {
		next = s
	}
	return next, r
}

// Peek answers what Step would, but pays nothing.
func Peek(s State, now time.Time, o Options) (r algo.Result) {
	w := o.window()
	peek(&s, algo.Instant(now), &w, &r)
	return r
}

// Refund gives o.Cost units back, up to full: to the newest slots first, and to
// the trailing one last.
func Refund(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = s
	w := o.window()
	if !refund(&next, algo.Instant(now), &w, &r) {
		next = s
	}
	return next, r
}

// Charge takes o.Cost units unconditionally. What is not there becomes a debt,
// until the slot has left the window. The counts do not pass 2^62 in all by it.
func Charge(s State, now time.Time, o Options) (next State, r algo.Result) {
	next = s
	w := o.window()
	if !charge(&next, algo.Instant(now), &w, &r) {
		next = s
	}
	return next, r
}

// step moves the state and fills in the zero Result r. It reports whether the
// state changed; where it did not, what it left in s has no meaning. So do its siblings.
func step(s *State, now int64, w *window, r *algo.Result) bool {
	a := account{window: w, state: s, now: now}
	if !a.open(r) {
		return false
	}
	if r.Allowed = r.Cost <= a.left; r.Allowed {
		a.turn()
		a.pay(r.Cost, r)
	} else {
		r.RetryAfter = a.wait(r.Cost)
	}
	a.close(r)
	return r.Allowed
}

func peek(s *State, now int64, w *window, r *algo.Result) {
	a := account{window: w, state: s, now: now}
	if !a.open(r) {
		return
	}
	if r.Allowed = r.Cost <= a.left; !r.Allowed {
		r.RetryAfter = a.wait(r.Cost)
	}
	a.close(r)
}

func refund(s *State, now int64, w *window, r *algo.Result) bool {
	a := account{window: w, state: s, now: now}
	if !a.open(r) {
		return false
	}
	if r.Allowed = true; !r.Fresh {
		a.turn()
		a.repay(r.Cost, r)
	}
	a.close(r)
	return !r.Fresh
}

func charge(s *State, now int64, w *window, r *algo.Result) bool {
	a := account{window: w, state: s, now: now}
	if !a.open(r) {
		return false
	}
	r.Allowed = true
	if room := algo.MaxCount - a.recent - a.trailing; room > 0 {
		a.turn()
		a.pay(min(r.Cost, room), r)
	}
	a.close(r)
	return r.Paid > 0
}

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
	left     int64 // units to spend
}

// open settles the state at now. It reports whether the options are valid; where
// they are not, r is the denial.
func (a *account) open(r *algo.Result) bool {
	r.Cost = a.cost
	if a.slots == 0 {
		r.RetryAfter = algo.Never
		return false
	}
	r.Limit = a.limit
	s := a.state
	if s.Width != a.width || uint64(s.At) > algo.MaxInstant {
		s.recut(a.width, a.slots)
	}
	if !a.add() {
		*s = s.normal()
		a.add()
	}
	at := a.now
	if a.recent|a.trailing != 0 { // with nothing used there is no state to have a time
		at = max(at, s.At)
	}
	a.into = at % a.width
	a.begin = at - a.into

	recent, trailing := a.recent, a.trailing // as of s.At
	a.drop(a.slotsSince(s.At))
	if a.recent|a.trailing == 0 {
		r.Fresh, r.Refilled, a.left = true, a.limit, a.limit
		return true
	}
	a.left = a.limit - a.recent - a.weigh(a.trailing, a.into)
	r.Available = a.left
	if s.At < a.now && (a.age > 0 || trailing > 0) {
		begin := a.begin - a.age*a.width
		r.Available = a.limit - recent - a.weigh(trailing, s.At-begin)
	}
	r.Refilled = a.left - r.Available
	r.Skew = time.Duration(at - a.now)
	return true
}

// add adds up the counts as of the last paid step. It reports whether they are
// such as a step leaves behind.
func (a *account) add() bool {
	counts := a.state.counts()
	a.trailing = 0
	if len(counts) > a.slots {
		a.trailing = counts[a.slots]
		counts = counts[:a.slots]
	}
	var sum, signs int64
	for _, c := range counts {
		sum += c
		signs |= c | sum
	}
	a.recent = sum
	return signs|a.trailing|(sum+a.trailing) >= 0
}

// slotsSince is how many slots before the current one the slot of an instant is.
func (a *account) slotsSince(instant int64) int64 {
	switch before := a.begin - instant; {
	case before <= 0:
		return 0
	case before <= a.width:
		return 1
	default:
		return (before-1)/a.width + 1
	}
}

// drop lets the counts grow older by that many slots.
func (a *account) drop(slots int64) {
	a.age = slots
	if slots == 0 {
		return
	}
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

// weigh is what a trailing count counts for, that far into the current slot: its
// share rounded up, which decides whole units as the exact share would.
func (a *account) weigh(count, into int64) int64 {
	if count == 0 || a.whole {
		return count
	}
	hi, lo := bits.Mul64(uint64(count), uint64(a.width-into))
	if hi == 0 {
		q := lo / uint64(a.width)
		if q*uint64(a.width) != lo {
			q++
		}
		return int64(q)
	}
	return u128.Uint{Hi: hi, Lo: lo}.CeilDiv(a.width)
}

// wait is how long until there are that many units, more than there are now.
//
// With every slot that passes, the oldest of the counts that fill the window
// begins to trail. What decides is the first to do so whose going, with that of
// all older ones, leaves room: the units fit once no more than room of it counts.
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
	at := uint64(a.begin) + uint64(n-k)*uint64(a.width)
	switch {
	case trailing <= room:
	case a.whole:
		at += uint64(a.width)
	default:
		at += uint64(a.width - portion(room, a.width, trailing))
	}
	return a.until(at)
}

// portion is floor(a*b/c), where a < c.
func portion(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi == 0 {
		return int64(lo / uint64(c))
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
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
	r.Paid = units
	a.state.counts()[0] += units
	a.recent += units
	a.left -= units
}

// repay takes units out of the counts, the newest first.
func (a *account) repay(units int64, r *algo.Result) {
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
	before := a.left
	a.left = a.limit - a.recent - a.weigh(a.trailing, a.into)
	r.Paid = before - a.left
	if a.recent|a.trailing == 0 {
		*a.state = State{}
	}
}

// close completes the result with what stands now.
func (a *account) close(r *algo.Result) {
	r.Remaining = a.left
	if a.recent|a.trailing != 0 {
		r.NextRefill = a.wait(a.left + 1)
		r.ResetAfter = a.lapse()
	}
}
