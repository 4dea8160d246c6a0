package fixedwindow

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// Options configures the algorithm. Limit is required.
type Options struct {
	// Limit is the units in one window, and its length.
	Limit algo.Limit
	Align Align
	// Offset moves the windows of AlignClock, by whole microseconds: -2h is for days that begin at midnight in UTC+2. Only its
	// remainder of Limit.Period counts. With AlignFirst it must be 0.
	Offset time.Duration
	// Cost is the units of a Step, Peek, Refund or Charge; 0 means 1. New requires 0 or 1.
	Cost int64
}

// Align is where windows start; the default is AlignFirst.
type Align int

const (
	// AlignFirst starts a window of a key at its first allowed request or charge after the last window.
	AlignFirst Align = iota
	// AlignClock starts all windows at the multiples of the period since the Unix epoch, plus Options.Offset.
	AlignClock
)

// String returns the word used in a spec: "first" or "clock".
func (a Align) String() string { return policy.Word("Align", int(a), "first", "clock") }

// Validate returns an error that names the first invalid option.
func (o Options) Validate() error {
	if err := o.Limit.Validate(); err != nil {
		return fmt.Errorf("fixedwindow: %w", err)
	}
	switch {
	case o.Align != AlignFirst && o.Align != AlignClock:
		return fmt.Errorf("fixedwindow: Align must be AlignFirst or AlignClock, got %d", int(o.Align))
	case o.Align == AlignFirst && o.Offset != 0:
		return fmt.Errorf("fixedwindow: Offset is for AlignClock; with AlignFirst it must be 0, got %v",
			algo.FormatDuration(o.Offset))
	case o.Offset%time.Microsecond != 0:
		return fmt.Errorf("fixedwindow: Offset must be a whole number of microseconds, got %v; the nearest is %v", o.Offset, o.Offset.Round(time.Microsecond))
	case o.Cost < 0:
		return fmt.Errorf("fixedwindow: Cost is %d: %w", o.Cost, algo.ErrCost)
	}
	return nil
}

// arguments returns the numbers of the arithmetic. It is faster than Validate.
func (o *Options) arguments() arguments {
	isValid := o.Limit.IsValid() && o.Cost >= 0 && o.Offset%time.Microsecond == 0 && (o.Align == AlignClock || o.Align == AlignFirst && o.Offset == 0)
	if !isValid {
		return arguments{}
	}
	period := o.Limit.Period.Microseconds()
	args := arguments{limit: o.Limit.Count, period: period, offset: -1}
	if o.Align == AlignClock {
		args.offset = (o.Offset.Microseconds()%period + period) % period
	}
	return args
}
