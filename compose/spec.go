package compose

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/errtext"
)

// ParsePolicy returns the policy that a spec describes. A spec is one line in one of two
// forms:
//
//	ALGORITHM LIMIT [option=value ...]
//	all(SPEC; SPEC ...)
//
// LIMIT is COUNT/PERIOD as [algo.ParseLimit] reads it, such as 100/m, 100/min or 5/250ms.
// These are the algorithms and their options:
//
//	gcra          burst=N  cost=N
//	tokenbucket   burst=N  refill=continuous|interval  cost=N
//	fixedwindow   align=first|clock  offset=DURATION  cost=N
//	movingwindow  slots=N  trailing=weighted|whole  cost=N
//
// White space separates words. N is at least 1. Of several values the first is the default.
//
//	burst     the most units at once; the default is the count of the limit
//	refill    how tokens come back: one by one, or the count of the limit at once, every period
//	align     where windows start: at the first call, or at multiples of the period since 1970 UTC
//	offset    moves the windows, and needs align=clock; the default is 0
//	slots     how many slots the window is cut into; the default is 1
//	trailing  how the oldest slot counts, which is partly in the window: in proportion, or whole
//	cost      the units of a request; the default is 1
//
// cost= is for code that calls the methods of a policy itself, and for replays of access logs. A
// [Limiter] uses Rule.Cost, and refuses a rule whose policy has a cost of its own.
//
// The String method of a policy returns a spec that ParsePolicy reads back. It omits options
// that have their default values.
//
// Every error is a [*SpecError], which shows the word at fault.
func ParsePolicy(spec string) (algo.Policy, error) {
	return parseSpec(spec, false)
}

// ParseRulePolicy is ParsePolicy for the policy of a [Rule]. It refuses cost=, because
// Rule.Cost sets the cost of a call, and its errors do not suggest cost=.
func ParseRulePolicy(spec string) (algo.Policy, error) {
	return parseSpec(spec, true)
}

// SpecError describes a fault in a spec: the word at fault, its place, and what would be
// valid there.
type SpecError struct {
	Rule    string // the name of the rule, if New parsed the spec of a rule
	Spec    string // the whole spec
	Offset  int    // where Word begins in Spec, in bytes
	Word    string // the word at fault; empty if a word is missing
	Problem string // what is wrong, and what would be valid
	Err     error  // the error of the algorithm or of algo.ParseLimit; nil if they found no fault
}

// Error returns one line: the rule, the spec, the column of the word, and the problem. The
// column counts characters, from 1.
func (e *SpecError) Error() string {
	column := utf8.RuneCountInString(e.Spec[:e.Offset]) + 1
	rule := ""
	if e.Rule != "" && e.Rule != e.Spec {
		rule = "rule " + errtext.Quote(e.Rule) + ": "
	}
	return fmt.Sprintf("compose: %spolicy %s, column %d: %s", rule, errtext.Quote(e.Spec), column, e.Problem)
}

// withCaret adds the lines of Caret to the message, if a terminal can show them.
func (e *SpecError) withCaret() error {
	if unprintable := func(r rune) bool { return !unicode.IsPrint(r) }; len(e.Spec) > errtext.MaxQuoted || strings.ContainsFunc(e.Spec, unprintable) {
		return e
	}
	return fmt.Errorf("%w\n%s", e, e.Caret())
}

// Unwrap returns Err.
func (e *SpecError) Unwrap() error { return e.Err }

// Caret returns two lines for a terminal: the spec, and carets below the word at fault.
func (e *SpecError) Caret() string {
	blank := func(r rune) rune {
		if unicode.IsSpace(r) {
			return r
		}
		return ' '
	}
	carets := max(1, utf8.RuneCountInString(e.Word))
	return e.Spec + "\n" + strings.Map(blank, e.Spec[:e.Offset]) + strings.Repeat("^", carets)
}
