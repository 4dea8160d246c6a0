package backtest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/costed"
)

const maxExamples = 3

// Report has the counts of a replay.
type Report struct {
	Requests      int64
	Keys          int64
	Disagreements int64     // requests that some policies allow and others deny
	Examples      []Example // the first of them, one for each key
	Policies      []Outcome
	TopDenied     []KeyDenials // the most denied keys, by the sum over all policies
	Timeline      Timeline     // without bins if there were no requests
}

// Example is one request on which the policies disagree.
type Example struct {
	Time    time.Time
	Key     string
	Allowed []bool // by policy
}

// KeyDenials has the number of denials of a key under each policy.
type KeyDenials struct {
	Key    string
	Denied []int64
}

// Counts has the numbers of allowed and denied requests. Members with a name are in the JSON of the
// command.
type Counts struct {
	Allowed     int64         `json:"-"`
	Denied      int64         `json:"denied"`
	LongestWait time.Duration `json:"-"` // the longest RetryAfter
	Never       int64         `json:"-"` // denials that no wait ends
}

// count counts a decision.
func (c *Counts) count(result *algo.Result) {
	if result.Allowed {
		c.Allowed++
	} else {
		c.Deny(result.RetryAfter)
	}
}

// Deny counts a denial with that RetryAfter.
func (c *Counts) Deny(wait time.Duration) {
	c.Denied++
	if wait == algo.Never {
		c.Never++
	} else {
		c.LongestWait = max(c.LongestWait, wait)
	}
}

// Outcome has the counts of one policy.
type Outcome struct {
	Counts
	Policy     costed.Policy
	KeysDenied int64     // keys that were denied at least once
	Admitted   int64     // the most units that one key was admitted in any interval as long as the period of Policy.Limit
	Bound      int64     // the most units that Policy can admit in it
	TopDenied  []Denials // the most denied keys
}

// Denials has the number of denials of a key. It has the form that the command prints as JSON.
type Denials struct {
	Key    string `json:"key"`
	Denied int64  `json:"denied"`
}

// Report returns the counts so far, with at most top keys in each list of keys. Keys with equal
// counts are in the order of their bytes.
func (r *Replay) Report(top int) Report {
	report := r.report
	report.Keys = int64(len(r.ids))
	report.Timeline = r.timeline.done()
	var lists [][]Denials
	for i := range r.columns {
		o, denied := r.columns[i].outcome(r.ids, top)
		report.Policies, lists = append(report.Policies, o), append(lists, denied)
	}
	report.TopDenied = MostDenied(top, lists...)
	return report
}

// outcome returns the counts with the most denied keys, and all denied keys.
func (c *column) outcome(ids keyNumbers, top int) (o Outcome, denied []Denials) {
	denied = []Denials{} // nil would be null in JSON
	for key, id := range ids {
		if n := c.cells[id].denied; n > 0 {
			denied = append(denied, Denials{key, n})
		}
	}
	SortDenials(denied)
	o = c.Outcome
	o.KeysDenied, o.TopDenied = int64(len(denied)), denied[:min(len(denied), top)]
	return o, denied
}

// SortDenials sorts the keys with the most denials first. Keys with equal counts are in the order of
// their bytes.
func SortDenials(all []Denials) {
	slices.SortFunc(all, func(a, b Denials) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), strings.Compare(a.Key, b.Key))
	})
}

// MostDenied returns the keys with the most denials in all lists together, at most top of them.
func MostDenied(top int, lists ...[]Denials) (most []KeyDenials) {
	rows, sums := make(map[string][]int64), make(map[string]int64)
	for i, list := range lists {
		for _, d := range list {
			if rows[d.Key] == nil {
				rows[d.Key] = make([]int64, len(lists))
			}
			rows[d.Key][i] = d.Denied
			sums[d.Key] += d.Denied
		}
	}
	var all []Denials
	for key, sum := range sums {
		all = append(all, Denials{key, sum})
	}
	SortDenials(all)
	for _, d := range all[:min(len(all), top)] {
		most = append(most, KeyDenials{d.Key, rows[d.Key]})
	}
	return most
}

// Parts returns the parts of a stack, or else the policy itself. For a penalty, it returns the parts of its inner policy.
func Parts(p algo.Policy) []algo.Policy {
	if stack := compose.StackOf(p); stack != nil {
		return stack.Parts()
	}
	if penalty, ok := p.(*compose.Penalty); ok {
		p = penalty.Inner()
	}
	return []algo.Policy{p}
}
