package fixedwindow

import (
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/u128"
)

// Options configure the algorithm. The zero value is not valid: a Limit is needed.
type Options struct {
	// Limit is the units of one window, and its length.
	Limit algo.Limit
	// Align says where windows begin; the zero value is AlignFirst.
	Align Align
	// Offset moves the edges of AlignClock: they are the multiples of the period
	// since the Unix epoch, plus Offset. It may be negative, and it may be longer than
	// the period; only what is left of it modulo the period matters. Under
	// AlignFirst it must be 0.
	Offset time.Duration
	// Cost is the units that a step asks for; 0 means 1. A negative cost is denied.
	Cost int64
}

// Align says where windows begin.
type Align int

const (
	// AlignFirst opens a window with the first request that pays after the last
	// window ended. Every key has edges of its own.
	AlignFirst Align = iota
	// AlignClock cuts time at the multiples of the period since the Unix epoch, plus
	// Options.Offset. All keys share their edges.
	AlignClock
)

// String is the word of a spec: "first" or "clock".
func (a Align) String() string {
	switch a {
	case AlignFirst:
		return "first"
	case AlignClock:
		return "clock"
	}
	return fmt.Sprintf("Align(%d)", int(a))
}

// Validate reports what is wrong with the options, if anything.
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
	case o.Cost < 0:
		return fmt.Errorf("fixedwindow: Cost is %d: %w", o.Cost, algo.ErrCost)
	}
	return nil
}

// valid is Validate without the words.
func (o *Options) valid() bool {
	return o.Limit.Count >= 1 && o.Limit.Count <= algo.MaxCount && o.Limit.Period >= 1 && o.Cost >= 0 &&
		(o.Align == AlignClock || o.Align == AlignFirst && o.Offset == 0)
}

func (o *Options) cost() int64 {
	if o.Cost == 0 {
		return 1
	}
	return o.Cost
}

// end is where a window ends that is opened at start; math.MaxInt64 where that is
// past the end of time.
func (o *Options) end(start int64) int64 {
	length := int64(o.Limit.Period)
	if o.Align == AlignClock {
		length = o.rest(start)
	}
	if end := start + length; end > 0 {
		return end
	}
	return math.MaxInt64
}

// rest is how long the window of the clock that holds t still lasts.
func (o *Options) rest(t int64) int64 {
	period, offset := int64(o.Limit.Period), int64(o.Offset)
	rest := period - t%period
	if offset == 0 {
		return rest
	}
	if offset %= period; offset < 0 {
		offset += period
	}
	if rest > period-offset {
		rest -= period
	}
	return rest + offset
}

// Bound is the most units that can be admitted in any interval of that length:
// Count * (1 + ceil((interval-1)/Period)), or 0 for an empty interval.
// A larger bound than math.MaxInt64 is told as that.
func Bound(o Options, interval time.Duration) int64 {
	if interval < 1 || !o.valid() {
		return 0
	}
	windows := 1 + u128.From(int64(interval)-1).CeilDiv(int64(o.Limit.Period))
	return u128.Mul(o.Limit.Count, windows).Int64()
}
