package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/internal/policy"
)

// Trace is a parsed trace. It is immutable. See [Parse].
type Trace struct {
	name     string
	lines    []line
	shown    []column
	policies int   // columns of answers
	invalid  error // the first fault of an answer; Diff returns it, and Run needs no answers
}

// A line has its text, and its event or its policy. It has neither if it is a comment, a blank
// line or a show line.
type line struct {
	number int
	text   string // for an event, without the answers and the comment
	event  *event
	policy *costed.Policy
	column int // the policy that a policy line sets
}

type event struct {
	at      time.Duration
	key     string
	op      policy.Op
	cost    int64      // 0: that of the policy
	arrow   int        // the position of the arrow, in characters; -1: there is none
	answers [][]string // by policy, then by column, in canonical text; nil: none given
	comment string     // at the end of the line
}

// operations has the operation of each prefix of COST.
var operations = map[string]policy.Op{"": policy.Step, "peek:": policy.Peek, "refund:": policy.Refund, "charge:": policy.Charge}

// Under returns the trace with other policies in place of its policy lines, one column of
// answers for each. Its events have no answers.
func (t *Trace) Under(policies ...costed.Policy) *Trace {
	under := &Trace{name: t.name, shown: t.shown, policies: len(policies)}
	for i, p := range policies {
		under.lines = append(under.lines, line{text: "policy " + p.String(), policy: &p, column: i})
	}
	for _, l := range t.lines {
		if l.policy == nil {
			under.lines = append(under.lines, l.answered(nil))
		}
	}
	return under
}

// answered returns the line with other answers, if it has an event.
func (l line) answered(answers [][]string) line {
	if l.event != nil {
		e := *l.event
		e.answers = answers
		l.event = &e
	}
	return l
}

var epoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // the time of the offset 0

// Run runs the events. It returns the same trace with the decisions of the policies right of
// every arrow.
func (t *Trace) Run() (*Trace, error) {
	ran := *t
	ran.lines = slices.Clone(t.lines)
	policies := make([]costed.Policy, t.policies)
	states := make([]map[string][]byte, t.policies) // by policy, then by key
	for i, l := range t.lines {
		if l.policy != nil {
			if before := policies[l.column].Policy; states[l.column] != nil && compose.Kind(before) != compose.Kind(l.policy.Policy) {
				return nil, fmt.Errorf("%s:%d: policy %s: a policy line after an event keeps the states, but a limiter would not keep those of %s; want the same algorithm, and in all() the same periods",
					t.name, l.number, l.policy, before)
			}
			policies[l.column] = *l.policy
		}
		if l.event == nil {
			continue
		}
		var answers [][]string
		for c, p := range policies {
			next, r, err := l.event.op.Apply(p, nil, states[c][l.event.key], epoch.Add(l.event.at), cmp.Or(l.event.cost, p.Cost))
			if err != nil {
				return nil, fmt.Errorf("%s:%d: policy %s: %w", t.name, l.number, p, err)
			}
			if states[c] == nil {
				states[c] = map[string][]byte{}
			}
			states[c][l.event.key] = next
			answer := make([]string, len(t.shown))
			for i, column := range t.shown {
				answer[i] = column.text(&r)
			}
			answers = append(answers, answer)
		}
		ran.lines[i] = l.answered(answers)
	}
	return &ran, nil
}

// Events returns the number of events.
func (t *Trace) Events() (n int) {
	for _, l := range t.lines {
		if l.event != nil {
			n++
		}
	}
	return n
}

// differs reports whether an event got other answers than it has. An event without answers differs too, because it would test
// nothing.
func differs(want, got *line) bool {
	return want.event != nil && !slices.EqualFunc(want.event.answers, got.event.answers, slices.Equal)
}

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
