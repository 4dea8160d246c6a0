package calendar

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// Unit is the length of the windows.
type Unit int

// The units. There is no default.
const (
	Day Unit = iota + 1
	Week
	Month
	Year
)

var unitWords = []string{"", "day", "week", "month", "year"}

// String returns the word in a spec: "day", "week", "month" or "year".
func (u Unit) String() string { return policy.Word("Unit", int(u), unitWords...) }

// Options configures the algorithm. Count and Unit are required.
type Options struct {
	Count int64          // units in each window, from 1 to algo.MaxCount
	Unit  Unit           // of the windows
	Zone  *time.Location // whose midnight begins a window; nil means UTC. It must come from time.LoadLocation
	// Cost is the units of a Step, Peek, Refund or Charge; 0 means 1. New requires 0 or 1.
	Cost int64
}

// Validate returns an error that names the first invalid option.
func (o Options) Validate() error {
	switch {
	case o.Count < 1 || o.Count > algo.MaxCount:
		return fmt.Errorf("calendar: Count must be from 1 to 2^40 (%d), got %d", algo.MaxCount, o.Count)
	case o.Unit < Day || o.Unit > Year:
		return fmt.Errorf("calendar: Unit must be Day, Week, Month or Year, got %d", int(o.Unit))
	case o.Zone == time.Local || o.zone().String() == "localtime": // some systems have a zone of this name
		return fmt.Errorf("calendar: Zone must not be that of the machine, which can differ between processes; name the zone, such as Europe/Berlin")
	case o.Cost < 0:
		return fmt.Errorf("calendar: Cost is %d: %w", o.Cost, algo.ErrCost)
	}
	return nil
}

func (o *Options) zone() *time.Location {
	if o.Zone == nil {
		return time.UTC
	}
	return o.Zone
}
