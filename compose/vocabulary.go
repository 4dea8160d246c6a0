package compose

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/tokenbucket"
)

// settings are all that a spec can say of one policy; zero is the default.
type settings struct {
	limit       algo.Limit
	burst, cost int64
	refill      tokenbucket.Refill
	align       fixedwindow.Align
	offset      time.Duration
	slots       int64
	trailing    movingwindow.Trailing
}

// normalize makes settings of the same meaning equal.
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

// An algorithm is a word that begins a spec.
type algorithm struct {
	name    string
	options []string
	build   func(settings) (algo.Policy, error)
	// Where build refuses although each word is well-formed, this option beside the
	// others is at fault, and refusal says what to do. Both are empty where build
	// refuses nothing.
	blamed  string
	refusal func(settings) string
}

var algorithms = [...]algorithm{
	{"gcra", []string{"burst", "cost"}, func(s settings) (algo.Policy, error) {
		return gcra.New(gcra.Options{Limit: s.limit, Burst: s.burst, Cost: s.cost})
	}, "burst", slowToRegain},
	{"tokenbucket", []string{"burst", "refill", "cost"}, func(s settings) (algo.Policy, error) {
		return tokenbucket.New(tokenbucket.Options{Limit: s.limit, Burst: s.burst, Refill: s.refill, Cost: s.cost})
	}, "burst", slowToRegain},
	{"fixedwindow", []string{"align", "offset", "cost"}, func(s settings) (algo.Policy, error) {
		return fixedwindow.New(fixedwindow.Options{Limit: s.limit, Align: s.align, Offset: s.offset, Cost: s.cost})
	}, "offset", func(settings) string {
		return "offset= needs align=clock; windows that begin with the first request have no edges to move"
	}},
	{"movingwindow", []string{"slots", "trailing", "cost"}, func(s settings) (algo.Policy, error) {
		return movingwindow.New(movingwindow.Options{Limit: s.limit, Slots: int(s.slots), Trailing: s.trailing, Cost: s.cost})
	}, "", nil},
}

// slowToRegain is what gcra and tokenbucket say of a burst whose time they cannot
// count.
func slowToRegain(s settings) string {
	burst := s.burst
	if burst == 0 {
		burst = s.limit.Count
	}
	return fmt.Sprintf("%d at %v take longer than 2^62ns (146 years) to regain; take a smaller burst or a shorter period", burst, s.limit)
}

func algorithmNames() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = a.name
	}
	return names
}

// takers are the algorithms that take the option.
func takers(option string) (names []string) {
	for _, a := range algorithms {
		for _, o := range a.options {
			if o == option {
				names = append(names, a.name)
			}
		}
	}
	return names
}

const costOption = "cost"

// needs is what else an option wants, for lists of options.
func needs(option string) string {
	if option == "offset" {
		return " (with align=clock)"
	}
	return ""
}

// An option sets one thing; set reports whether the value was one of its values.
type option struct {
	name   string
	values string
	set    func(s *settings, value string) bool
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

// oneOf sets to the value that is written that way.
func oneOf[T fmt.Stringer](to *T, written string, values ...T) bool {
	for _, v := range values {
		if v.String() == written {
			*to = v
			return true
		}
	}
	return false
}

// didYouMean is the known word that is nearest to a mistyped one, as the end of
// a sentence; nothing where none is near.
func didYouMean(typed string, known []string, suffix string) string {
	nearest, least := "", 3
	for _, k := range known {
		if d := distance(typed, k); d < least && d < len(k)-1 {
			nearest, least = k, d
		}
	}
	switch {
	case nearest == "":
		return ""
	case least == 0:
		return "; did you mean " + nearest + suffix + needs(nearest) + "? All words are in lower case"
	}
	return "; did you mean " + nearest + suffix + needs(nearest) + "?"
}

// distance is how many letters must be inserted, deleted, changed or swapped with
// their neighbour to make b of a. Words much longer than b are just far.
func distance(a, b string) int {
	if len(a) > len(b)+3 {
		return len(a)
	}
	a = strings.ToLower(a)
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			row[j+1] = min(last[j]+change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
