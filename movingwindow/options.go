package movingwindow

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// MaxSlots is the most slots that a window can have.
const MaxSlots = 1024

// Options configures the algorithm. Limit is required.
type Options struct {
	// Limit is the units in one window, and its length.
	Limit algo.Limit
	// Slots is the number of slots in the window, at most MaxSlots; 0 means 1.
	Slots    int
	Trailing Trailing
	// Cost is the units of a Step, Peek, Refund or Charge; 0 means 1. New requires 0 or 1.
	Cost int64
	// PaidAt, unless zero, selects the units that were paid at that time. It needs Whole. Refund gives back only units of their
	// slot. Step moves o.Cost units from that slot to the current one. If the slot has fewer, Step denies with a RetryAfter of
	// algo.Never.
	PaidAt time.Time
}

// Trailing is how the trailing slot counts; the default is Weighted.
type Trailing int

const (
	// Weighted counts its units in proportion to its overlap with the window.
	Weighted Trailing = iota
	// Whole counts all of its units.
	Whole
)

// String returns the word used in a spec: "weighted" or "whole".
func (t Trailing) String() string {
	return policy.Word("Trailing", int(t), "weighted", "whole")
}

// Validate returns an error that names the first invalid option.
func (o Options) Validate() error {
	if err := o.Limit.Validate(); err != nil {
		return fmt.Errorf("movingwindow: %w", err)
	}
	switch {
	case o.Slots < 0 || o.Slots > MaxSlots:
		return fmt.Errorf("movingwindow: Slots must be from 1 to %d, or 0 for 1, got %d", MaxSlots, o.Slots)
	case o.Trailing != Weighted && o.Trailing != Whole:
		return fmt.Errorf("movingwindow: Trailing must be Weighted or Whole, got %d", int(o.Trailing))
	case !o.PaidAt.IsZero() && o.Trailing != Whole:
		return fmt.Errorf("movingwindow: PaidAt needs Trailing Whole, got %v", o.Trailing)
	case o.Cost < 0:
		return fmt.Errorf("movingwindow: Cost is %d: %w", o.Cost, algo.ErrCost)
	}
	return nil
}

// arguments sets args, which is zero, to the numbers of the arithmetic. If the options are not valid, args stays zero. It is
// faster than Validate. It sets the fields one by one, because a CPU waits before it can copy a struct that was just written.
func (o *Options) arguments(args *arguments) {
	isValid := o.Limit.IsValid() && o.Cost >= 0 && o.Slots >= 0 && o.Slots <= MaxSlots && (o.Trailing == Weighted || o.Trailing == Whole)
	if !isValid || !o.PaidAt.IsZero() && o.Trailing != Whole {
		return
	}
	slots := int64(max(o.Slots, 1))
	width := policy.Ceil(o.Limit.Period.Microseconds(), slots)
	grain := width // a trailing slot that counts whole has one grain
	if o.Trailing == Weighted {
		grain = width/(maxCapacity/o.Limit.Count+1) + 1 // the least for which limit*weight is at most maxCapacity
	}
	weight := width / grain
	args.limit, args.width, args.slots = o.Limit.Count, width, slots
	args.grain, args.weight, args.most = grain, weight, algo.MaxLevel/weight-o.Limit.Count
	if !o.PaidAt.IsZero() {
		args.paidAt = 1 + algo.Instant(o.PaidAt)
	}
}

// maxCapacity is the highest weight of a full window. The rest up to algo.MaxLevel is for debts: units that were charged
// beyond the limit, and units of the trailing slot that no longer count.
const maxCapacity = 1<<50 - 1
