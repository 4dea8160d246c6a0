package trace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
)

// Trace is a parsed trace. It is immutable. See [Parse].
type Trace struct {
	name     string
	lines    []line
	shown    []column
	policies int // columns of answers
}

// A line has its text, and its event or its policy. It has neither if it is a comment, a blank
// line or a show line.
type line struct {
	number int
	text   string // for an event, without the answers and the comment
	event  *event
	policy algo.Policy
	column int // the policy that a policy line sets
}

type event struct {
	at      time.Duration
	key     string
	op      algorithm.Op
	cost    int64
	arrow   int        // the position of the arrow, in characters; -1: there is none
	answers [][]string // by policy, then by column, in canonical text; nil: none given
	comment string     // at the end of the line
}

// operations has the operation of each prefix of COST.
var operations = map[string]algorithm.Op{"": algorithm.Step, "peek:": algorithm.Peek, "refund:": algorithm.Refund, "charge:": algorithm.Charge}

// Under returns the trace with other policies in place of its policy lines, one column of
// answers for each. Its events have no answers.
func (t *Trace) Under(policies ...algo.Policy) *Trace {
	under := &Trace{name: t.name, shown: t.shown, policies: len(policies)}
	for i, p := range policies {
		under.lines = append(under.lines, line{text: "policy " + p.String(), policy: p, column: i})
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

// Run runs the events. It returns the same trace with the decisions of the policies right of
// every arrow.
func (t *Trace) Run() (*Trace, error) {
	epoch := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // the time of the offset 0
	ran := *t
	ran.lines = slices.Clone(t.lines)
	policies := make([]algo.Policy, t.policies)
	states := make([]map[string][]byte, t.policies) // by policy, then by key
	for i, l := range t.lines {
		if l.policy != nil {
			policies[l.column] = l.policy
		}
		if l.event == nil {
			continue
		}
		var answers [][]string
		for c, policy := range policies {
			next, r, err := l.event.op.Apply(policy, nil, states[c][l.event.key], epoch.Add(l.event.at), l.event.cost)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: policy %s: %w%s", t.name, l.number, policy, err, remedy(err))
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

func remedy(err error) string {
	if errors.Is(err, algo.ErrState) {
		return "; a policy line after an event keeps the states, so it needs the same algorithm"
	}
	return ""
}

// Check runs the trace and describes every event whose decisions differ from its line: the event,
// the decisions and the wanted answers, in three lines. An event without answers differs too,
// because it would test nothing.
func (t *Trace) Check() (differences []string, err error) {
	ran, err := t.Run()
	if err != nil {
		return nil, err
	}
	for i, l := range t.lines {
		if l.event == nil || slices.EqualFunc(l.event.answers, ran.lines[i].event.answers, slices.Equal) {
			continue
		}
		var aligned layout
		aligned.fit(ran.lines[i].event.answers)
		aligned.fit(l.event.answers)
		got := strings.TrimRight(aligned.row(ran.lines[i].event.answers), " ")
		want := cmp.Or(strings.TrimRight(aligned.row(l.event.answers), " "), "(nothing right of ->)")
		event := strings.Join(strings.Fields(l.text), " ")
		differences = append(differences, fmt.Sprintf("%s:%d: %s\n\tgot  %s\n\twant %s", t.name, l.number, event, got, want))
	}
	return differences, nil
}
