package compose

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/tokenbucket"
)

// settings are the limit and options in a spec. A zero field means the default.
type settings struct {
	limit       algo.Limit
	burst, cost int64
	refill      tokenbucket.Refill
	align       fixedwindow.Align
	offset      time.Duration
	slots       int64
	trailing    movingwindow.Trailing
}

// normalize sets fields that have their default value to zero, so that equal policies have
// equal specs.
func (s *settings) normalize() {
	if s.burst == s.limit.Count {
		s.burst = 0
	}
	if s.cost == 1 {
		s.cost = 0
	}
	if s.slots == 1 {
		s.slots = 0
	}
}

type algorithm struct {
	name    string
	options []string
	build   func(settings) (algo.Policy, error)
	// If build refuses options that are each valid, faultOption is the one at fault, and
	// fault returns the message. They are zero if build refuses nothing.
	faultOption string
	fault       func(settings) string
}

var algorithms = [...]algorithm{
	{"gcra", []string{"burst", "cost"}, func(s settings) (algo.Policy, error) {
		return gcra.New(gcra.Options{Limit: s.limit, Burst: s.burst, Cost: s.cost})
	}, "burst", slowRefill},
	{"tokenbucket", []string{"burst", "refill", "cost"}, func(s settings) (algo.Policy, error) {
		return tokenbucket.New(tokenbucket.Options{Limit: s.limit, Burst: s.burst, Refill: s.refill, Cost: s.cost})
	}, "burst", slowRefill},
	{"fixedwindow", []string{"align", "offset", "cost"}, func(s settings) (algo.Policy, error) {
		return fixedwindow.New(fixedwindow.Options{Limit: s.limit, Align: s.align, Offset: s.offset, Cost: s.cost})
	}, "offset", func(settings) string {
		return "offset= needs align=clock; without it each window begins with a request, and an offset has no meaning"
	}},
	{"movingwindow", []string{"slots", "trailing", "cost"}, func(s settings) (algo.Policy, error) {
		return movingwindow.New(movingwindow.Options{Limit: s.limit, Slots: int(s.slots), Trailing: s.trailing, Cost: s.cost})
	}, "", nil},
}

// slowRefill is the fault of a burst that takes longer to refill than gcra and tokenbucket
// can count.
func slowRefill(s settings) string {
	burst := s.burst
	if burst == 0 {
		burst = s.limit.Count
	}
	return fmt.Sprintf("a burst of %d at %v takes longer than 2^62ns (146 years) to refill; choose a smaller burst or a shorter period", burst, s.limit)
}

func algorithmNames() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = a.name
	}
	return names
}

func algorithmsWith(option string) (names []string) {
	for _, a := range algorithms {
		if slices.Contains(a.options, option) {
			names = append(names, a.name)
		}
	}
	return names
}

const costOption = "cost"

// condition returns the other option that an option needs, for lists of options.
func condition(option string) string {
	if option == "offset" {
		return " (with align=clock)"
	}
	return ""
}

type option struct {
	name   string
	values string                               // its valid values, for messages
	set    func(s *settings, value string) bool // reports whether the value is valid
}

var options = [...]option{
	{"burst", "a whole number of units from 1 to 2^62", func(s *settings, v string) bool { return count(&s.burst, v, algo.MaxCount) }},
	{"refill", "continuous or interval", func(s *settings, v string) bool {
		return oneOf(&s.refill, v, tokenbucket.Continuous, tokenbucket.Interval)
	}},
	{"align", "first or clock", func(s *settings, v string) bool {
		return oneOf(&s.align, v, fixedwindow.AlignFirst, fixedwindow.AlignClock)
	}},
	{"offset", "a duration such as 15m or -1h30m", func(s *settings, v string) bool {
		var err error
		s.offset, err = time.ParseDuration(v)
		return err == nil
	}},
	{"slots", fmt.Sprintf("a whole number of slots from 1 to %d", movingwindow.MaxSlots), func(s *settings, v string) bool {
		return count(&s.slots, v, movingwindow.MaxSlots)
	}},
	{"trailing", "weighted or whole", func(s *settings, v string) bool {
		return oneOf(&s.trailing, v, movingwindow.Weighted, movingwindow.Whole)
	}},
	{costOption, "a whole number of units from 1", func(s *settings, v string) bool { return count(&s.cost, v, math.MaxInt64) }},
}

func count(n *int64, value string, most int64) bool {
	var err error
	*n, err = strconv.ParseInt(value, 10, 64)
	return err == nil && *n >= 1 && *n <= most
}

// oneOf sets to to the value whose String is written.
func oneOf[T fmt.Stringer](to *T, written string, values ...T) bool {
	for _, v := range values {
		if v.String() == written {
			*to = v
			return true
		}
	}
	return false
}
