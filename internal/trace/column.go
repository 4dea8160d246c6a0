package trace

import (
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// A column is one word of an answer.
type column struct {
	name   string
	values string // the accepted values, for errors
	// canonical returns the word in the form of text; false if it is not a value of the column.
	canonical func(word string) (string, bool)
	text      func(r *algo.Result) string
}

var columns = [...]column{
	choice("verdict", "ok", "deny", func(r *algo.Result) bool { return r.Allowed }),
	units("left", func(r *algo.Result) int64 { return r.Remaining }),
	wait("retry", func(r *algo.Result) time.Duration { return r.RetryAfter }),
	wait("reset", func(r *algo.Result) time.Duration { return r.ResetAfter }),
	units("available", func(r *algo.Result) int64 { return r.Available }),
	units("refilled", func(r *algo.Result) int64 { return r.Refilled }),
	units("paid", func(r *algo.Result) int64 { return r.Paid }),
	wait("next", func(r *algo.Result) time.Duration { return r.NextRefill }),
	units("limit", func(r *algo.Result) int64 { return r.Limit }),
	units("cost", func(r *algo.Result) int64 { return r.Cost }),
	choice("fresh", "yes", "no", func(r *algo.Result) bool { return r.Fresh }),
	wait("skew", func(r *algo.Result) time.Duration { return r.Skew }),
	units("part", func(r *algo.Result) int64 { return int64(r.Part) }),
}

// usual is the number of columns without a show line.
const usual = 4

func choice(name, yes, no string, of func(*algo.Result) bool) column {
	canonical := func(word string) (string, bool) { return word, word == yes || word == no }
	return column{name, yes + " or " + no, canonical, func(r *algo.Result) string {
		if of(r) {
			return yes
		}
		return no
	}}
}

func units(name string, of func(*algo.Result) int64) column {
	canonical := func(word string) (string, bool) {
		n, err := strconv.ParseInt(word, 10, 64)
		return strconv.FormatInt(n, 10), err == nil
	}
	return column{name, "a whole number", canonical, func(r *algo.Result) string { return strconv.FormatInt(of(r), 10) }}
}

func wait(name string, of func(*algo.Result) time.Duration) column {
	canonical := func(word string) (string, bool) {
		if word == "never" {
			return word, true
		}
		d, err := time.ParseDuration(word)
		return duration(d), err == nil
	}
	return column{name, "a duration such as 100ms, or never", canonical, func(r *algo.Result) string { return duration(of(r)) }}
}

func duration(d time.Duration) string {
	if d == algo.Never {
		return "never"
	}
	return algo.FormatDuration(d)
}

func columnNames(shown []column) string {
	names := make([]string, len(shown))
	for i, c := range shown {
		names[i] = c.name
	}
	return strings.Join(names, " ")
}
