package suggest

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
)

//go:embed report.tmpl
var reportText string

var reports = report.Template(reportText, nil)

// Report is the result of suggest. Its JSON is the output of --json, which the help documents.
type Report struct {
	accesslog.Counts
	Limited      int64         `json:"limited"` // requests that were answered with 429
	Untouched    string        `json:"untouched"`
	Of           Unit          `json:"of"`
	Suggestions  []*Suggestion `json:"suggestions,omitempty"` // for policies
	*RulesReport               // for the rules of a file
	logs.Problems

	All []*Suggestion `json:"-"` // for policies or rules
	log *logs.Summary
	top int
}

// RulesReport is the JSON for the rules of a file.
type RulesReport struct {
	Proxied  int64          `json:"proxied"`
	Together rules.Together `json:"together"` // with the policies found
	Now      rules.Together `json:"now"`      // with the policies of the file
	Rules    []*Rule        `json:"rules"`
	LeftOut  []string       `json:"left_out"` // the names of rules
}

// cutTopDenied leaves as many clients in the lists as --top says.
func (r *Report) cutTopDenied() {
	for _, s := range r.All {
		s.TopDenied = s.TopDenied[:min(len(s.TopDenied), r.top)]
	}
}

// Found returns the suggestions with a number.
func (r *Report) Found() (found []*Suggestion) {
	for _, s := range r.All {
		if s.Found {
			found = append(found, s)
		}
	}
	return found
}

// Cells returns the cells of a candidate: the policy, the requests and the clients that it denies, and the shares of the
// others.
func (s *Suggestion) Cells(c *Candidate) []any {
	return []any{c.Spec, c.Denied, untouchedShare(c.Denied, s.Requests), c.ClientsDenied, untouchedShare(c.ClientsDenied, s.Keys)}
}

// BoundText returns the most units that the policy admits for one key, and the interval.
func (s *Suggestion) BoundText() string {
	return fmt.Sprintf("%s in any %s", rules.BoundText(s.Bound), rules.IntervalText(s.Best.Policy.Limit().Period))
}

// untouchedShare returns the share that is not denied. It rounds down, so that only a whole is
// 100%.
func untouchedShare(denied, whole int64) string {
	const digits = 1000 // three digits after the point
	n := (whole - denied) * 100 * digits / whole
	return fmt.Sprintf("%d.%03d%%", n/digits, n%digits)
}

// Notes explains suggestions that are missing or unusual.
func (r *Report) Notes() (notes []string) {
	for _, s := range r.All {
		denies := func(c *Candidate) string {
			return fmt.Sprintf("%s denies %s of %s", c.Spec, readable.Plural(c.Denied, "request"), readable.Plural(c.ClientsDenied, "client"))
		}
		switch {
		case !s.Found:
			notes = append(notes, fmt.Sprintf("%s: no number meets the goal; even %s (%s untouched)",
				s.Name, denies(&s.Best), untouchedShare(s.Goal.Count(&s.Best.Counts), s.Total())))
		case s.Best.Number == 1:
			notes = append(notes, s.Name+": 1 is the smallest number of all")
		case s.Tighter == nil:
			notes = append(notes, fmt.Sprintf("%s: with %d it is not a valid policy", s.Name, s.Best.Number-1))
		}
		if s.Irregular != nil {
			notes = append(notes, fmt.Sprintf("%s: a larger number is not always looser here; %s, which is more than the goal allows", s.Name, denies(s.Irregular)))
		}
	}
	return notes
}

// Curve returns the table of the share of denied requests, or clients, by number. what is the number.
func (r *Report) Curve(what string) string {
	const most = 12
	var specs []string
	var peak int64
	for _, s := range r.All {
		specs = append(specs, s.Name)
		peak = max(peak, s.Peak.Number)
	}
	names, table := report.Columns(specs)
	table += "\n" + report.Row(fmt.Sprintf("share of %v denied if %s is", r.Of, what), names) + "\n"
	for _, n := range tableNumbers(peak, most) {
		var shares []string
		known := false
		for _, s := range r.All {
			denied := s.deniedAt(n)
			shares, known = append(shares, denied), known || denied != "-"
		}
		if known { // otherwise all curves begin above n
			table += report.Row(n, shares) + "\n"
		}
	}
	return table
}

// tableNumbers returns round numbers up to the first that is not below peak, at most that many.
func tableNumbers(peak int64, most int) (numbers []int64) {
	for ten := int64(1); ; ten *= 10 {
		for _, digit := range [...]int64{1, 2, 3, 5, 7} {
			numbers = append(numbers, ten*digit)
			if ten*digit >= peak || ten > algo.MaxCount/100 {
				return numbers[max(0, len(numbers)-most):]
			}
		}
	}
}

// deniedAt returns the share that the curve has at a number. Above the peak it is that of the peak.
func (s *Suggestion) deniedAt(n int64) string {
	c := &s.Peak
	if i := slices.IndexFunc(s.Curve, func(c Candidate) bool { return c.Number == n }); i >= 0 {
		c = &s.Curve[i]
	} else if n <= s.Peak.Number {
		return "-"
	}
	return readable.Share(s.Goal.Count(&c.Counts), s.Total())
}
