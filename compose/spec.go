package compose

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/calendar"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/inflight"
	"github.com/sluice-go/sluice/internal/errtext"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/tokenbucket"
)

// ParsePolicy returns the policy that a spec describes. A spec is one line in one of three forms:
//
//	ALGORITHM LIMIT [option=value ...]
//	all(SPEC; SPEC ...)
//	penalty(SPEC; for=DURATION)
//
// All policies of all() apply to a key; see [Stack]. After a denial by SPEC, a penalty denies the key for DURATION; see
// [Penalty]. inflight and penalty cannot be a part of all(). LIMIT is COUNT/PERIOD, such as 100/m or 5/250ms; see
// [algo.ParseLimit]. For inflight it is only COUNT, and for calendar COUNT/day, week, month or year. The algorithms and their
// options are
//
//	gcra          burst=N
//	tokenbucket   burst=N  refill=continuous|interval
//	fixedwindow   align=first|clock  offset=DURATION
//	movingwindow  slots=N  trailing=weighted|whole
//	inflight      ttl=DURATION  slots=N
//	calendar      tz=ZONE
//
// N is at least 1. The first of several values is the default.
//
//	burst     the most units at once; default the count
//	refill    tokens come back one by one, or the count at once, every period
//	align     windows start at the first call, or at multiples of the period since 1970 UTC
//	offset    moves the windows of align=clock; default 0
//	slots     into how many slots the window or the ttl is cut; default 1, of inflight 10
//	trailing  the slot before these, partly in the window, counts in proportion, or whole
//	tz        a time zone of the database of the system, such as Europe/Berlin; default UTC
//	ttl       how long a unit is held if it is not released; required
//
// The policy's String returns the spec without default options. Every error is a [*SpecError].
func ParsePolicy(spec string) (algo.Policy, error) {
	p := &specParser{spec: spec}
	if len(spec) > maxSpec {
		return nil, p.fail(specWord{}, "a spec is at most %d bytes long, this has %d", maxSpec, len(spec))
	}
	for _, at := range specWords.FindAllStringIndex(spec, -1) {
		p.words = append(p.words, specWord{spec[at[0]:at[1]], at[0]})
	}
	p.words = append(p.words, specWord{"", len(spec)})
	policy, err := p.policy()
	if err != nil {
		return nil, err
	}
	switch w := p.next(); {
	case strings.HasPrefix(w.text, "cost="):
		return nil, p.fail(w, hasNoCost)
	case w.text != "":
		return nil, p.fail(w, "unexpected %s after the end of the policy; write several policies as all(SPEC; SPEC ...), each with its own options", errtext.Quote(w.text))
	}
	return policy, nil
}

const hasNoCost = "cost= is not an option of a policy; give the rule the cost: the field cost beside policy in limits.yaml, Rule.Cost in Go; " +
	"in -p and in traces, cost= is the last word"

// SpecError describes a fault in a spec.
type SpecError struct {
	Rule    string // the name of the rule, if sluice parsed the spec of one
	Spec    string // the whole spec
	Offset  int    // of Word in Spec, in bytes
	Word    string // the word at fault; empty if a word is missing
	Problem string // what is wrong, and what would be valid
	Err     error  // from the algorithm or algo.ParseLimit, if they found the fault
}

// Error returns one line: the rule, the spec, the column of the word in characters from 1, and the problem.
func (e *SpecError) Error() string {
	column := utf8.RuneCountInString(e.Spec[:e.Offset]) + 1
	rule := "compose: "
	if e.Rule != "" && e.Rule != e.Spec {
		rule = "sluice: rule " + errtext.Quote(e.Rule) + ": "
	}
	return fmt.Sprintf("%spolicy %s, column %d: %s", rule, errtext.Quote(e.Spec), column, e.Problem)
}

func (e *SpecError) Unwrap() error { return e.Err }

// Caret returns the spec, and below it carets at the word at fault.
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

// settings are the limit and options in a spec. A zero field means the default.
type settings struct {
	limit    algo.Limit
	burst    int64
	refill   tokenbucket.Refill
	align    fixedwindow.Align
	offset   time.Duration
	slots    int64
	trailing movingwindow.Trailing
	ttl      time.Duration
	unit     calendar.Unit
	zone     *time.Location
}

type algorithmSpec struct {
	name    string
	options []string
	build   func(settings) (algo.Policy, error)

	// An algorithm for something else than a rate has its own form of limit.
	limit      func(s *settings, text string) bool // reports whether the limit is valid; nil for COUNT/PERIOD
	form       string                              // of the limit, for messages
	example    string
	needs, why string // a required option, and what it is
}

var algorithms = [...]algorithmSpec{
	{name: "gcra", options: []string{"burst"}, build: func(s settings) (algo.Policy, error) {
		return gcra.New(gcra.Options{Limit: s.limit, Burst: s.burst})
	}},
	{name: "tokenbucket", options: []string{"burst", "refill"}, build: func(s settings) (algo.Policy, error) {
		return tokenbucket.New(tokenbucket.Options{Limit: s.limit, Burst: s.burst, Refill: s.refill})
	}},
	{name: "fixedwindow", options: []string{"align", "offset"}, build: func(s settings) (algo.Policy, error) {
		return fixedwindow.New(fixedwindow.Options{Limit: s.limit, Align: s.align, Offset: s.offset})
	}},
	{name: "movingwindow", options: []string{"slots", "trailing"}, build: func(s settings) (algo.Policy, error) {
		return movingwindow.New(movingwindow.Options{Limit: s.limit, Slots: int(s.slots), Trailing: s.trailing})
	}},
	{name: "inflight", options: []string{"ttl", "slots"}, build: func(s settings) (algo.Policy, error) {
		return inflight.New(inflight.Options{Count: s.limit.Count, TTL: s.ttl, Slots: int(s.slots)})
	}, limit: func(s *settings, text string) bool {
		return count(&s.limit.Count, text, algo.MaxCount)
	}, form: "COUNT, from 1 to 2^40, without a period", example: "inflight 20 ttl=30s", needs: "ttl", why: "the time after which a unit returns that was not released"},
	{name: "calendar", options: []string{"tz"}, build: func(s settings) (algo.Policy, error) {
		return calendar.New(calendar.Options{Count: s.limit.Count, Unit: s.unit, Zone: s.zone})
	}, limit: func(s *settings, text string) bool {
		number, unit, _ := strings.Cut(text, "/")
		return count(&s.limit.Count, number, algo.MaxCount) && oneOf(&s.unit, unit, calendar.Day, calendar.Week, calendar.Month, calendar.Year)
	}, form: "COUNT/day, COUNT/week, COUNT/month or COUNT/year, with a count from 1 to 2^40", example: "calendar 10000/month tz=Europe/Berlin"},
}

// algorithmNames returns the names of the algorithms that have an option, or of all if it is "".
func algorithmNames(option string) (names []string) {
	for _, a := range algorithms {
		if option == "" || slices.Contains(a.options, option) {
			names = append(names, a.name)
		}
	}
	return names
}

type option struct {
	values string                               // its valid values, for messages
	needs  string                               // the other option that it needs, for messages
	set    func(s *settings, value string) bool // reports whether the value is valid
}

var options = map[string]option{
	"burst": {values: "a whole number of units from 1 to 2^40", set: func(s *settings, v string) bool {
		return count(&s.burst, v, algo.MaxCount)
	}},
	"refill": {values: "continuous or interval", set: func(s *settings, v string) bool {
		return oneOf(&s.refill, v, tokenbucket.Continuous, tokenbucket.Interval)
	}},
	"align": {values: "first or clock", set: func(s *settings, v string) bool {
		return oneOf(&s.align, v, fixedwindow.AlignFirst, fixedwindow.AlignClock)
	}},
	"offset": {"a duration in whole microseconds, such as 15m, 4d or -1h30m", " (with align=clock)", func(s *settings, v string) bool {
		var err error
		if s.offset, err = time.ParseDuration(v); strings.HasSuffix(v, "d") {
			days, negative := strings.CutPrefix(v, "-")
			if s.offset, err = parsePeriod(days); negative {
				s.offset = -s.offset
			}
		}
		return err == nil && s.offset%time.Microsecond == 0
	}},
	"slots": {values: fmt.Sprintf("a whole number of slots from 1 to %d", movingwindow.MaxSlots), set: func(s *settings, v string) bool {
		return count(&s.slots, v, movingwindow.MaxSlots)
	}},
	"trailing": {values: "weighted or whole", set: func(s *settings, v string) bool {
		return oneOf(&s.trailing, v, movingwindow.Weighted, movingwindow.Whole)
	}},
	"tz": {values: "the name of a time zone that this system knows, such as Europe/Berlin (a program can import time/tzdata to know all)", set: func(s *settings, v string) bool {
		var err error
		s.zone, err = time.LoadLocation(v)
		return err == nil && v != "" && s.zone != time.Local
	}},
	"ttl": {"a duration in whole microseconds from 1ms to 365d, such as 30s", " (the time after which a unit returns)", func(s *settings, v string) bool {
		var err error
		s.ttl, err = parsePeriod(v)
		return err == nil && s.ttl >= inflight.MinTTL && s.ttl <= inflight.MaxTTL
	}},
}

// parsePeriod parses a duration that is written like the period of a limit.
func parsePeriod(text string) (time.Duration, error) {
	limit, err := algo.ParseLimit("1/" + text)
	return limit.Period, err
}

func count(n *int64, value string, most int64) bool {
	var err error
	*n, err = strconv.ParseInt(value, 10, 64)
	return err == nil && *n >= 1 && *n <= most
}

// oneOf sets to to the value whose String is written.
func oneOf[T fmt.Stringer](to *T, written string, values ...T) bool {
	i := slices.IndexFunc(values, func(v T) bool { return v.String() == written })
	if i >= 0 {
		*to = values[i]
	}
	return i >= 0
}

// maxSpec is the longest spec that ParsePolicy reads, in bytes. A stack of 64 parts with all
// options is shorter.
const maxSpec = 16 << 10

// A word is one of ( ) ; or a run of other characters up to one of these or white space.
var specWords = regexp.MustCompile(`[();]|[^();\s\v\x{85}\p{Z}]+`)

type specWord struct {
	text   string // empty at the end of the spec
	offset int
}

// endsPolicy reports whether the words of the current policy end before w.
func (w specWord) endsPolicy() bool { return w.text == "" || strings.Contains("();", w.text) }

type specParser struct {
	spec  string
	words []specWord // those not read yet, and the end
}

// next reads a word. The end can be read any number of times.
func (p *specParser) next() specWord {
	w := p.words[0]
	if len(p.words) > 1 {
		p.words = p.words[1:]
	}
	return w
}

func (p *specParser) policy() (algo.Policy, error) {
	name := p.next()
	const known = "known are gcra, tokenbucket, fixedwindow, movingwindow, all(SPEC; SPEC ...), penalty(SPEC; for=DURATION), " +
		"inflight for units that are held, and calendar for quotas by date"
	switch name.text {
	case "all":
		return p.stack(name)
	case "penalty":
		return p.penalty(name)
	}
	if name.endsPolicy() {
		return nil, p.missing(name, "a policy, an algorithm and its limit such as gcra 100/m; "+known)
	}
	i := slices.IndexFunc(algorithms[:], func(a algorithmSpec) bool { return a.name == name.text })
	switch {
	case i >= 0:
		return p.algorithm(&algorithms[i])
	case strings.ContainsAny(name.text[:1], "+-.0123456789/"): // a limit, even if it is wrong
		example := "gcra " + name.text
		if _, err := ParsePolicy(example); err != nil {
			example = "gcra 100/m"
		}
		return nil, p.missing(name, "an algorithm; the limit follows it, for instance "+example+"; "+known)
	}
	name, typed, limit := p.typedName(name)
	return nil, p.fail(name, "unknown algorithm %s; %s%s", errtext.Quote(name.text), known, didYouMean(typed, append(algorithmNames(""), "all", "penalty"), limit))
}

// typedName returns the words in place of the name of an algorithm, and the name in them. The name can be several
// words, as in "sliding window", or a part of the word gcra:10/s. The limit in such a word is returned after a
// space.
func (p *specParser) typedName(first specWord) (whole specWord, typed, limit string) {
	whole, typed = first, first.text
	for _, last := range p.words[:min(len(p.words), 3)] {
		if last.endsPolicy() {
			break
		}
		if words := p.upTo(first, last); synonyms[plain(words.text)] != "" {
			whole, typed = words, words.text
		}
	}
	if name, rest, ok := strings.Cut(strings.NewReplacer("=", ":", ",", ":").Replace(first.text), ":"); ok {
		if _, err := algo.ParseLimit(rest); err == nil {
			return first, name, " " + rest
		}
	}
	return whole, typed, ""
}

// upTo returns the text from the first word to the last as one word.
func (p *specParser) upTo(first, last specWord) specWord {
	return specWord{p.spec[first.offset : last.offset+len(last.text)], first.offset}
}

// stack reads the rest of all(SPEC; SPEC ...).
func (p *specParser) stack(all specWord) (algo.Policy, error) {
	if w := p.next(); w.text != "(" {
		return nil, p.missing(w, `"(" and the policies of all(SPEC; SPEC ...)`)
	}
	var parts []algo.Policy
	for {
		part, err := p.policy()
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		switch w := p.next(); w.text {
		case ";":
		case ")":
			stack, err := All(parts...)
			if errors.Is(err, errOwnRule) {
				return nil, p.refused(all, err, "inflight and penalty cannot be a part of all(SPEC; SPEC ...); give it a rule of its own")
			} else if err != nil {
				return nil, p.refused(all, err, fmt.Sprintf("all(SPEC; SPEC ...) takes at most %d policies, those of an inner all counted too", maxParts))
			}
			return stack, nil
		default:
			return nil, p.missing(w, `";" and another policy, or ")"`)
		}
	}
}

// penalty reads the rest of penalty(SPEC; for=DURATION).
func (p *specParser) penalty(name specWord) (algo.Policy, error) {
	const example = "penalty(fixedwindow 5/15min; for=1h)"
	if w := p.next(); w.text != "(" {
		return nil, p.missing(w, `"(" and the policy of penalty(SPEC; for=DURATION), for instance `+example)
	}
	inner, err := p.policy()
	if err != nil {
		return nil, err
	}
	if w := p.next(); w.text != ";" {
		return nil, p.missing(w, `"; for=DURATION)" after the policy, for instance `+example)
	}
	w := p.next()
	value, ok := strings.CutPrefix(w.text, "for=")
	if !ok {
		return nil, p.missing(w, "for=DURATION, the length of the penalty, for instance "+example)
	}
	length, err := parsePeriod(value)
	if err != nil || length < MinPenalty {
		return nil, p.fail(w, "for= takes a duration in whole microseconds from 1ms to %s, such as 1h, not %s", algo.FormatDuration(algo.MaxPeriod.Truncate(time.Hour)), errtext.Quote(value))
	}
	if w := p.next(); w.text != ")" {
		return nil, p.missing(w, `")" after for=DURATION`)
	}
	penalty, err := Punish(inner, length)
	if err != nil {
		return nil, p.refused(name, err, "penalty takes no inflight and no other penalty; give them rules of their own")
	}
	return penalty, nil
}

// algorithm reads the limit and the options of a.
func (p *specParser) algorithm(a *algorithmSpec) (algo.Policy, error) {
	var s settings
	limit, err := p.limit(a, &s)
	if err != nil {
		return nil, err
	}
	given, err := p.options(a, &s)
	if err != nil {
		return nil, err
	}
	if _, ok := given[a.needs]; a.needs != "" && !ok {
		return nil, p.fail(limit, "%s needs %s=, %s; for instance %s", a.name, a.needs, a.why, a.example)
	}
	policy, err := a.build(s)
	if err == nil {
		return policy, nil
	}
	// The options are valid, but not together.
	if w, ok := given["offset"]; ok && s.align != fixedwindow.AlignClock {
		return nil, p.refused(w, err, "offset= needs align=clock; without it each window begins with a request, and an offset has no meaning")
	}
	fault := limit
	if w, ok := given["burst"]; ok {
		fault = w
	}
	return nil, p.refused(fault, err, strings.TrimPrefix(err.Error(), a.name+": "))
}

// limit reads the limit of a into s, and returns its words.
func (p *specParser) limit(a *algorithmSpec, s *settings) (limit specWord, err error) {
	limit = p.next()
	switch {
	case limit.text == "(":
		return limit, p.fail(limit, "only all( ) and penalty( ) have parentheses; write %s without them: %[1]s LIMIT option=value, for instance %[1]s 100/m", a.name)
	case limit.endsPolicy() || strings.Contains(limit.text, "=") && !strings.Contains(limit.text, "/"):
		return limit, p.missing(limit, "the limit of "+a.name+", "+cmp.Or(a.form, "COUNT/PERIOD")+", for instance "+cmp.Or(a.example, a.name+" 100/m"))
	case a.limit != nil && !a.limit(s, limit.text):
		return limit, p.fail(limit, "the limit of %s is %s; for instance %s", a.name, a.form, a.example)
	case a.limit != nil:
		return limit, nil
	}
	s.limit, err = algo.ParseLimit(limit.text)
	if whole := p.limitWithSpaces(limit); err != nil && whole != limit {
		limit = whole
		_, err = algo.ParseLimit(limit.text)
	}
	switch {
	case err == nil:
		return limit, nil
	case len(limit.text) > errtext.MaxQuoted:
		return limit, p.fail(limit, "a limit is COUNT/PERIOD, for instance 100/m; this word has %d bytes", len(limit.text))
	}
	return limit, p.refused(limit, err, strings.TrimPrefix(err.Error(), "algo: "))
}

// limitWithSpaces returns the limit with the words up to the options, as in 100/2 hours or 100 / m. It is for
// messages, because a limit has no spaces.
func (p *specParser) limitWithSpaces(limit specWord) specWord {
	for _, w := range p.words {
		_, isOption := options[w.text]
		isName := slices.Contains(algorithmNames(""), w.text)
		if w.endsPolicy() || isOption || isName || strings.ContainsAny(limit.text+w.text, "=,") || w.offset+len(w.text)-limit.offset > errtext.MaxQuoted {
			break
		}
		limit = p.upTo(limit, w)
	}
	return limit
}

// options reads the option=value words into s. It returns the words by the names of their options.
func (p *specParser) options(a *algorithmSpec, s *settings) (given map[string]specWord, err error) {
	given = make(map[string]specWord)
	for !p.words[0].endsPolicy() {
		w := p.next()
		name, value, ok := strings.Cut(w.text, "=")
		o, known := options[name]
		first, twice := given[name]
		given[name] = w
		switch {
		case !ok:
			return nil, p.fail(w, "%s is not an option=value, written without spaces; %s", errtext.Quote(w.text), p.optionList(a))
		case name == "for":
			return nil, p.fail(w, `for= is an option of penalty( ); write ";" before it, as in penalty(fixedwindow 5/15min; for=1h)`)
		case name == "cost":
			return nil, p.fail(w, hasNoCost)
		case !known:
			return nil, p.fail(w, "unknown option %s; %s%s", errtext.Quote(name), p.optionList(a), didYouMean(name, a.options, "="))
		case !slices.Contains(a.options, name):
			return nil, p.fail(w, "%s= is an option of %s; %s", name, strings.Join(algorithmNames(name), " and "), p.optionList(a))
		case twice:
			return nil, p.fail(w, "%s= is given twice, first as %s", name, errtext.Quote(first.text))
		case !o.set(s, value):
			return nil, p.fail(w, "%s= takes %s, not %s", name, o.values, errtext.Quote(value))
		}
	}
	return given, nil
}

func (p *specParser) optionList(a *algorithmSpec) string {
	var words []string
	for _, name := range a.options {
		words = append(words, name+"="+options[name].needs)
	}
	return a.name + " takes " + strings.Join(words, ", ")
}

func (p *specParser) fail(w specWord, format string, args ...any) *SpecError {
	problem := fmt.Sprintf(format, args...)
	if strings.HasSuffix(w.text, ",") {
		problem += `; separate words by spaces, and the policies of all( ) by ";", without ","`
	}
	return &SpecError{Spec: p.spec, Offset: w.offset, Word: w.text, Problem: problem}
}

func (p *specParser) missing(w specWord, what string) error {
	if w.text == "" {
		return p.fail(w, "the spec ends where there should be %s", what)
	}
	return p.fail(w, "found %s where there should be %s", errtext.Quote(w.text), what)
}

// refused returns the error for a word that an algorithm or algo.ParseLimit refused with err. problem is err in terms of
// specs.
func (p *specParser) refused(w specWord, err error, problem string) error {
	e := p.fail(w, "%s", problem)
	e.Err = err
	return e
}

// synonyms are other names of the algorithms and options, in lower case and without punctuation.
var synonyms = map[string]string{
	"leakybucket": "gcra", "leaky": "gcra", "leakybucketmeter": "gcra", "cellrate": "gcra", "genericcellrate": "gcra", "genericcellratealgorithm": "gcra",
	"tokenbucket": "tokenbucket", "token": "tokenbucket", "tokens": "tokenbucket", "bucket": "tokenbucket",
	"fixedwindow": "fixedwindow", "fixed": "fixedwindow", "fixedwindowcounter": "fixedwindow", "fixedcounter": "fixedwindow",
	"window": "fixedwindow", "counter": "fixedwindow", "tumblingwindow": "fixedwindow", "tumbling": "fixedwindow",
	"movingwindow": "movingwindow", "moving": "movingwindow", "movingwindowcounter": "movingwindow",
	"slidingwindow": "movingwindow", "sliding": "movingwindow", "slidingwindowcounter": "movingwindow",
	"slidingwindowlog": "movingwindow", "slidingcounter": "movingwindow", "slidinglog": "movingwindow",
	"rollingwindow": "movingwindow", "rolling": "movingwindow", "rollingwindowcounter": "movingwindow",
	"inflight": "inflight", "concurrency": "inflight", "concurrent": "inflight", "semaphore": "inflight", "parallel": "inflight",
	"penalty": "penalty", "punish": "penalty", "lockout": "penalty", "ban": "penalty",
	"calendar": "calendar", "quota": "calendar", "calendarmonth": "calendar",
	"and": "all", "both": "all", "every": "all", "stack": "all", "allof": "all",
	"capacity": "burst", "size": "burst", "max": "burst", "bucketsize": "burst", "maxburst": "burst", "burstsize": "burst",
	"buckets": "slots", "segments": "slots", "subwindows": "slots", "aligned": "align", "alignment": "align", "weight": "cost",
}

// plain returns the letters and digits of a name, in lower case.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// didYouMean returns a question for the end of a message, or "" if no known word is similar. suffix follows the word
// in the question.
func didYouMean(typed string, known []string, suffix string) string {
	nearest := cmp.Or(errtext.Nearest(typed, known), synonyms[plain(typed)])
	if !slices.Contains(known, nearest) {
		return ""
	}
	question := "; did you mean " + nearest + suffix + options[nearest].needs + "?"
	if typed != nearest && strings.EqualFold(typed, nearest) {
		question += " All words are in lower case"
	}
	return question
}
