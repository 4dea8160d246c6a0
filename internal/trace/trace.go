package trace

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Trace is a parsed trace. It is immutable. See [Parse].
type Trace struct {
	name     string
	lines    []line
	shown    []column
	policies int // columns of answers
}

// Name returns the name given to Parse.
func (t *Trace) Name() string { return t.name }

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
	verb    verb
	cost    int64
	arrow   int        // the position of the arrow, in characters; -1: there is none
	answers [][]string // by policy, then by column, in canonical text; nil: none given
	comment string     // at the end of the line
}

// A verb is the operation of an event.
type verb int

const (
	step verb = iota
	peek
	refund
	charge
)

// verbs has the prefixes of COST.
var verbs = [...]string{step: "", peek: "peek:", refund: "refund:", charge: "charge:"}

// epoch returns the time of the offset 0.
func epoch() time.Time { return time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Under returns the trace with other policies in place of its policy lines, one column of
// answers for each. Its events have no answers.
func (t *Trace) Under(policies ...algo.Policy) *Trace {
	under := &Trace{name: t.name, shown: t.shown, policies: len(policies)}
	for i, p := range policies {
		under.lines = append(under.lines, line{text: "policy " + p.String(), policy: p, column: i})
	}
	for _, l := range t.lines {
		if l.policy != nil {
			continue
		}
		if l.event != nil {
			e := *l.event
			e.answers = nil
			l.event = &e
		}
		under.lines = append(under.lines, l)
	}
	return under
}
