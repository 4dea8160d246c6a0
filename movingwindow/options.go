package movingwindow

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// MaxSlots is the most slots that a window can be cut into.
const MaxSlots = 1024

// Options configure the algorithm. The zero value is not valid: a Limit is needed.
type Options struct {
	// Limit is the units of one window, and its length.
	Limit algo.Limit
	// Slots is the slots that the window is cut into, at most MaxSlots; 0 means 1.
	Slots int
	// Trailing says how the slot counts that the window is about to leave; the zero
	// value is Weighted.
	Trailing Trailing
	// Cost is the units that a step asks for; 0 means 1. A negative cost is denied.
	Cost int64
}

// Trailing says how the slot counts that lies across the far end of the window.
type Trailing int

const (
	// Weighted counts it in proportion to its overlap with the window.
	Weighted Trailing = iota
	// Whole counts it in full.
	Whole
)

// String is the word of a spec: "weighted" or "whole".
func (t Trailing) String() string {
	switch t {
	case Weighted:
		return "weighted"
	case Whole:
		return "whole"
	}
	return fmt.Sprintf("Trailing(%d)", int(t))
}

// Validate reports what is wrong with the options, if anything.
func (o Options) Validate() error {
	if err := o.Limit.Validate(); err != nil {
		return fmt.Errorf("movingwindow: %w", err)
	}
	switch {
	case o.Slots < 0 || o.Slots > MaxSlots:
		return fmt.Errorf("movingwindow: Slots must be from 1 to %d, or 0 for 1, got %d", MaxSlots, o.Slots)
	case o.Trailing != Weighted && o.Trailing != Whole:
		return fmt.Errorf("movingwindow: Trailing must be Weighted or Whole, got %d", int(o.Trailing))
	case o.Cost < 0:
		return fmt.Errorf("movingwindow: Cost is %d: %w", o.Cost, algo.ErrCost)
	}
	return nil
}

// valid is Validate without the words.
func (o *Options) valid() bool {
	return o.Limit.Count >= 1 && o.Limit.Count <= algo.MaxCount && o.Limit.Period >= 1 && o.Cost >= 0 &&
		o.Slots >= 0 && o.Slots <= MaxSlots && (o.Trailing == Weighted || o.Trailing == Whole)
}

func (o *Options) slots() int { return max(o.Slots, 1) }

func (o *Options) cost() int64 {
	if o.Cost == 0 {
		return 1
	}
	return o.Cost
}

// A window is the options as the arithmetic wants them. Without slots it is that
// of options that are not valid, and denies everything.
type window struct {
	limit int64
	width int64 // of a slot, ns
	slots int
	whole bool
	cost  int64
}

// bind makes the zero window that of the options.
func (w *window) bind(o *Options) {
	w.cost = o.cost()
	if !o.valid() {
		return
	}
	w.limit = o.Limit.Count
	// A longer slot would hold all of time as well, but slots could not be added up.
	w.width = min(o.width(), algo.MaxInstant+1)
	w.slots = o.slots()
	w.whole = o.Trailing == Whole
}

// width is Period/Slots, rounded up.
func (o *Options) width() int64 {
	period, slots := uint64(o.Limit.Period), uint64(o.slots())
	if slots == 1 {
		return int64(period)
	}
	return int64((period + slots - 1) / slots)
}

// Bound is the most units that can be admitted in any interval of that length,
// by the formulas of the package doc; 0 for an empty interval.
// A larger bound than math.MaxInt64 is told as that.
func Bound(o Options, interval time.Duration) int64 {
	switch {
	case interval < 1 || !o.valid():
		return 0
	case interval == 1:
		return o.Limit.Count
	}
	// The worst case begins with the last instant of a slot, and takes there all it can.
	limit, n, width := o.Limit.Count, int64(o.slots()), o.width()
	between, into := (int64(interval)-2)/width, (int64(interval)-2)%width
	if o.Trailing == Whole {
		return u128.Mul(limit, between/(n+1)+(between%(n+1)+2+n)/(n+1)).Int64()
	}
	between -= n - 1
	switch {
	case between < 0:
		return limit
	case between%n != 0:
		return u128.Mul(limit, 2+between/n).Int64()
	}
	part, _ := u128.Mul(limit, into).DivMod(width)
	return u128.Mul(limit, 1+between/n).Add(u128.From(part)).Int64()
}
