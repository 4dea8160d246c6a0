// Package readable writes durations, counts and names for people. Reports, messages and the page of sluice compare use
// it. JSON and traces, which programs read, have exact durations in the notation of
// [time.ParseDuration].
package readable

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-go/sluice/algo"
)

const day = 24 * time.Hour

// Exact returns d without rounding: "250ms", "1m30s", "36h". From two days on it writes whole days as
// days: "7d". Use it for values that someone chose, such as the period of a limit.
func Exact(d time.Duration) string {
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return algo.FormatDuration(d)
}

// Rounded returns d with three or four significant digits: "282ms", "2.571s", "1m1s", "9h7m", "6d23h". Use it
// for values that were measured or computed, such as a wait.
func Rounded(d time.Duration) string {
	unit := time.Duration(1)
	switch {
	case d.Round(time.Hour) >= 2*day:
		d = d.Round(time.Hour)
		days := Exact(d.Truncate(day))
		return strings.TrimSuffix(days+Exact(d%day), "0s")
	case d >= time.Hour:
		unit = time.Minute
	case d >= time.Minute:
		unit = time.Second
	case d >= time.Second:
		unit = time.Millisecond
	default:
		for d >= 1000*unit {
			unit *= 10
		}
	}
	return Exact(d.Round(unit))
}

// Texts returns the text of each value.
func Texts[T any](values []T) []string {
	all := []string{}
	for _, v := range values {
		all = append(all, fmt.Sprint(v))
	}
	return all
}

func List[T any](values []T, between string) string { return strings.Join(Texts(values), between) }

// Graphic escapes the characters of the text that cannot be seen.
func Graphic(text string) string {
	quoted := strconv.QuoteToGraphic(text)
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(quoted[1 : len(quoted)-1])
}

// Plural returns a number with a noun.
func Plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Share returns a percentage, or - if whole is 0.
func Share(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(part)/float64(whole))
}

// Wait formats the longest wait.
func Wait(longest time.Duration, never int64) string {
	s := Rounded(longest)
	if never > 0 {
		s += fmt.Sprintf(", %d never", never)
	}
	return s
}

// Shorten cuts a long key.
func Shorten(key string) string { return Cut(key, 60) }

// BaseName returns the last element of a path, escaped and shortened. An SVG with control characters
// is not valid.
func BaseName(path string) string { return Shorten(Graphic(filepath.Base(path))) }

// Cut returns at most this many characters of a text.
func Cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// Are returns the verb for a number.
func Are(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// OneLine returns the text of an error on one line.
func OneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

var (
	quotation = regexp.MustCompile(`(?s)"(\\.|[^"\\])*("|\\?$)`)
	badHeader = regexp.MustCompile(`(?s)(malformed MIME header[^:]*: ).*`)
)

// Unquoted removes quotations from text. net/http and net/url quote what they cannot read, which may be a secret; older releases of
// Go also show the line of a header.
func Unquoted(text string) string {
	text = badHeader.ReplaceAllString(text, "${1}...")
	return quotation.ReplaceAllLiteralString(text, "...")
}
