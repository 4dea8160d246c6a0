package inflight

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/movingwindow"
)

// The range of Options.TTL.
const (
	MinTTL = time.Millisecond
	MaxTTL = 365 * 24 * time.Hour
)

// DefaultSlots is used if Options.Slots is 0.
const DefaultSlots = 10

// Options configures the algorithm. Count and TTL are required.
type Options struct {
	// Count is the most units that are held at once, from 1 to algo.MaxCount.
	Count int64
	// TTL is how long a unit is held at least without Release and Renew: whole microseconds from MinTTL to MaxTTL.
	TTL time.Duration
	// Slots is into how many slots TTL is cut, at most movingwindow.MaxSlots; 0 means DefaultSlots.
	Slots int
	// Cost is the units of a Step, Peek, Release or Renew; 0 means 1. New requires 0 or 1.
	Cost int64
}

// Validate returns an error that names the first invalid option.
func (o Options) Validate() error {
	switch {
	case o.Count < 1 || o.Count > algo.MaxCount:
		return fmt.Errorf("inflight: Count must be from 1 to 2^40 (%d), got %d", algo.MaxCount, o.Count)
	case o.TTL < MinTTL || o.TTL > MaxTTL:
		return fmt.Errorf("inflight: TTL must be from 1ms to 8760h, which is a year, got %v", algo.FormatDuration(o.TTL))
	case o.TTL%time.Microsecond != 0:
		return fmt.Errorf("inflight: TTL must be a whole number of microseconds, got %v; the nearest is %v", o.TTL, o.TTL.Round(time.Microsecond))
	case o.Slots < 0 || o.Slots > movingwindow.MaxSlots:
		return fmt.Errorf("inflight: Slots must be from 1 to %d, or 0 for %d, got %d", movingwindow.MaxSlots, DefaultSlots, o.Slots)
	case o.Cost < 0:
		return fmt.Errorf("inflight: Cost is %d: %w", o.Cost, algo.ErrCost)
	}
	return nil
}

// window returns the options of the window that counts the units. If o is not valid, they are not.
func (o Options) window() movingwindow.Options {
	if o.Validate() != nil {
		return movingwindow.Options{Cost: max(o.Cost, 0)}
	}
	return movingwindow.Options{
		Limit: algo.Per(o.Count, o.TTL), Slots: int(policy.Or(int64(o.Slots), DefaultSlots)), Trailing: movingwindow.Whole, Cost: o.Cost,
	}
}

// held returns the options of the window for units that were taken at an instant.
func (o Options) held(taken time.Time) movingwindow.Options {
	w := o.window()
	w.PaidAt = time.UnixMicro(algo.Instant(taken)) // not the zero time
	return w
}
