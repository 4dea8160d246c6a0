package trace

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Trace is a parsed trace. Make one with [Parse]; it is not changed afterwards.
type Trace struct {
	name     string
	lines    []line
	shown    []column
	policies int // columns of answers
}

// Name is what the trace was called when it was parsed.
func (t *Trace) Name() string { return t.name }

// A line is kept as it was written, and as what it means: an event, a policy, or
// neither (a comment, a blank, or a show line that has done its work).
type line struct {
	number int
	text   string // without the answers and the comment, if it is an event
	event  *event
	policy algo.Policy
	column int // which policy the policy line sets
}

type event struct {
	at      time.Duration
	key     string
	verb    verb
	cost    int64
	arrow   int        // where the arrow stands in the line, in characters; -1: there is none
	answers [][]string // by policy, then by column, in canonical text; nil: none given
	comment string     // at the end of the line
}

// A verb is what an event asks of a policy.
type verb int

const (
	step verb = iota
	peek
	refund
	charge
)

// verbs are the prefixes of COST.
var verbs = [...]string{step: "", peek: "peek:", refund: "refund:", charge: "charge:"}

// epoch is what offsets count from.
func epoch() time.Time { return time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Under is the trace with other policies: one column of answers for each, from
// beginning to end, in place of those that its policy lines name. No answers
// are expected of it.
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
