package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
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

// Outcome has the counts of one policy.
type Outcome struct {
	Policy      algo.Policy
	Allowed     int64
	Denied      int64
	KeysDenied  int64         // keys that were denied at least once
	Admitted    int64         // the most units that one key was admitted in any period of Policy.Limit
	Bound       int64         // the most that Policy can admit; both in requests if the parts of Policy differ in cost
	LongestWait time.Duration // the longest RetryAfter
	Never       int64         // denials that no wait ends
	TopDenied   []Denials     // the most denied keys
}

// Denials has the number of denials of a key.
type Denials struct {
	Key    string
	Denied int64
}

// Report returns the counts so far, with at most top keys in each list of keys. Keys with equal
// counts are in the order of their bytes.
func (r *Replay) Report(top int) Report {
	report := Report{
		Requests:      r.requests,
		Keys:          int64(len(r.keys.names)),
		Disagreements: r.disagreements,
		Examples:      r.examples,
		TopDenied:     r.topDenied(top),
		Timeline:      r.timeline.done(),
	}
	for i := range r.columns {
		report.Policies = append(report.Policies, r.columns[i].outcome(r.keys.names, top))
	}
	return report
}

func (c *column) outcome(keys []string, top int) Outcome {
	o := Outcome{
		Policy:      c.policy,
		Allowed:     c.allowed,
		Denied:      c.denied,
		Admitted:    c.worst,
		Bound:       c.bound,
		LongestWait: c.longest,
		Never:       c.never,
	}
	leaders := ranking{most: top}
	for id, key := range keys {
		if n := c.cells.at(int32(id)).denied; n > 0 {
			o.KeysDenied++
			leaders.add(Denials{key, n})
		}
	}
	o.TopDenied = leaders.done()
	return o
}

func (r *Replay) topDenied(top int) []KeyDenials {
	leaders := ranking{most: top}
	for id, key := range r.keys.names {
		var sum int64
		for i := range r.columns {
			sum += r.columns[i].cells.at(int32(id)).denied
		}
		if sum > 0 {
			leaders.add(Denials{key, sum})
		}
	}
	var rows []KeyDenials
	for _, d := range leaders.done() {
		row := KeyDenials{Key: d.Key}
		for i := range r.columns {
			row.Denied = append(row.Denied, r.columns[i].cells.at(r.keys.ids[d.Key]).denied)
		}
		rows = append(rows, row)
	}
	return rows
}

// ranking has the most denied of the added keys.
type ranking struct {
	most int
	keys []Denials
}

func (r *ranking) add(d Denials) {
	r.keys = append(r.keys, d)
	if len(r.keys)/2-500 >= r.most { // most may be math.MaxInt
		r.cut()
	}
}

func (r *ranking) cut() {
	slices.SortFunc(r.keys, func(a, b Denials) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), strings.Compare(a.Key, b.Key))
	})
	r.keys = r.keys[:min(len(r.keys), r.most)]
}

func (r *ranking) done() []Denials {
	r.cut()
	return r.keys
}
