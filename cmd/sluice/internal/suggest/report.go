package suggest

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
)

// suggestReport has what the reports for policies and for rules have in common.
type suggestReport struct {
	log     *logs.Summary
	goal    Goal
	limited int64 // requests that were answered with 429
	top     int
	names   []string // of the searches: the template, or the rule
	found   []Suggestion
}

func (s *suggestPolicies) tables(r *suggestReport) string {
	w := new(strings.Builder)
	requests := r.found[0].Requests
	r.log.Head(w, fmt.Sprintf("%s by %v", readable.Plural(requests.Clients(), "client"), s.Keyer), logs.MissingInKey)
	fmt.Fprintf(w, "the goal: at least %v of the %v untouched, so at most %d denied\n", r.goal.Share, r.goal.Of, r.found[0].Allowed)
	r.printFound(w, false, "clients with at least one denied request", "the most units that the policy admits for one client; a request takes one unit, or the number after cost=")
	r.printNotes(w)
	s.printTopDenied(w, r)
	r.printCurve(w, "?")
	r.printLimits(w)
	if s.ipv6 > 0 {
		fmt.Fprintf(w, "%s of the log came from IPv6 addresses. Here each address is a client.\nA rule by ip limits a whole /64. To find its limit, use --config.\n", readable.Plural(s.ipv6, "request"))
	}
	return w.String()
}

// printFound prints the suggestions, the proof that they are the tightest, and explains the columns.
// withNames adds a column for the rules. clients and bound explain the columns with these names.
func (r *suggestReport) printFound(w io.Writer, withNames bool, clients, bound string) {
	counts := []any{"requests denied", "requests untouched", "clients denied", "clients untouched"}
	best := [][]any{slices.Concat([]any{"rule", "policy found"}, counts, []any{"bound", "longest wait"})}
	proof := [][]any{slices.Concat([]any{"rule", "one less"}, counts)}
	for i := range r.found {
		s := &r.found[i]
		if !s.Found {
			continue
		}
		best = append(best, append(r.candidateCells(i, &s.Best), boundCell(s.Best.Policy), readable.Wait(s.Best.LongestWait, s.Best.Never)))
		if s.Tighter != nil {
			proof = append(proof, r.candidateCells(i, s.Tighter))
		}
	}
	if len(best) == 1 {
		return
	}
	for _, rows := range [...][][]any{best, proof} {
		if !withNames {
			for i := range rows {
				rows[i] = rows[i][1:]
			}
		}
		report.Table(w, rows)
	}
	columns := [][2]string{
		{"clients denied", clients},
		{"untouched", "the share of requests or clients that is not denied"},
		{"bound", bound},
		{"longest wait", "the longest time until a denied request would be allowed (RetryAfter)"},
	}
	if len(proof) > 1 {
		columns = append(columns, [2]string{"one less", "the same with the next smaller number, which does not meet the goal"})
	}
	fmt.Fprintln(w)
	report.Legend(w, columns)
}

// candidateCells returns the cells of a candidate of a search: the policy, the requests and the clients
// that it denies, and the shares of the others.
func (r *suggestReport) candidateCells(search int, c *Candidate) []any {
	requests := r.found[search].Requests
	return []any{r.names[search], c.Policy, c.Denied, untouchedShare(c.Denied, requests.Len()), c.ClientsDenied, untouchedShare(c.ClientsDenied, requests.Clients())}
}

// boundCell returns the most units that a policy admits for one key, and the interval.
func boundCell(p algo.Policy) string {
	period := p.Limit().Period
	return fmt.Sprintf("%s in any %s", rules.BoundText(p.Bound(period)), rules.IntervalText(period))
}

// untouchedShare returns the share that is not denied. It rounds down, so that only a whole is
// 100%.
func untouchedShare(denied, whole int64) string {
	const digits = 1000 // three digits after the point
	n := (whole - denied) * 100 * digits / whole
	return fmt.Sprintf("%d.%03d%%", n/digits, n%digits)
}

// printNotes explains suggestions that are missing or unusual.
func (r *suggestReport) printNotes(w io.Writer) {
	var notes []string
	for i := range r.found {
		s := &r.found[i]
		switch {
		case !s.Found:
			notes = append(notes, fmt.Sprintf("%s: no number meets the goal; even %v denies %s of %s (%s untouched)",
				r.names[i], s.Best.Policy, readable.Plural(s.Best.Denied, "request"), readable.Plural(s.Best.ClientsDenied, "client"), untouchedShare(s.Goal.Count(&s.Best.Counts), s.Total())))
		case s.Best.Number == 1:
			notes = append(notes, fmt.Sprintf("%s: 1 is the smallest number of all", r.names[i]))
		case s.Tighter == nil:
			notes = append(notes, fmt.Sprintf("%s: with %d it is not a valid policy", r.names[i], s.Best.Number-1))
		}
		if s.Irregular != nil {
			notes = append(notes, fmt.Sprintf("%s: a larger number is not always looser here; %v denies %s of %s, which is more than the goal allows",
				r.names[i], s.Irregular.Policy, readable.Plural(s.Irregular.Denied, "request"), readable.Plural(s.Irregular.ClientsDenied, "client")))
		}
	}
	if len(notes) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(notes, "\n"))
	}
}

func (s *suggestPolicies) printTopDenied(w io.Writer, r *suggestReport) {
	var specs []string
	counts := make(map[string][]int64) // by key, under each policy found
	total := make(map[string]int64)
	for i := range r.found {
		specs = append(specs, r.found[i].Best.Policy.String())
		for _, d := range r.found[i].Denied {
			if counts[d.Key] == nil {
				counts[d.Key] = make([]int64, len(r.found))
			}
			counts[d.Key][i] = d.Denied
			total[d.Key] += d.Denied
		}
	}
	var denied []backtest.Denials
	for key, n := range total {
		denied = append(denied, backtest.Denials{Key: key, Denied: n})
	}
	backtest.SortDenials(denied)
	var most []backtest.KeyDenials
	for _, d := range denied[:min(len(denied), r.top)] {
		most = append(most, backtest.KeyDenials{Key: d.Key, Denied: counts[d.Key]})
	}
	if len(most) > 0 {
		report.PrintTopDenied(w, s.Keyer, report.ColumnNames(w, specs), most)
	}
}

// printCurve prints the share of denied requests, or clients, by number. what is the number.
func (r *suggestReport) printCurve(w io.Writer, what string) {
	const most = 12
	var peak int64
	for i := range r.found {
		peak = max(peak, r.found[i].Peak.Number)
	}
	rows := [][]any{append([]any{fmt.Sprintf("share of %v denied if %s is", r.goal.Of, what)}, report.ColumnNames(w, r.names)...)}
	for _, n := range tableNumbers(peak, most) {
		row, known := []any{n}, false
		for i := range r.found {
			denied := deniedAt(&r.found[i], n)
			row, known = append(row, denied), known || denied != "-"
		}
		if known { // otherwise all curves begin above n
			rows = append(rows, row)
		}
	}
	report.Table(w, rows)
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
func deniedAt(s *Suggestion, n int64) string {
	for i := range s.Curve {
		if s.Curve[i].Number == n {
			return readable.Share(s.Goal.Count(&s.Curve[i].Counts), s.Total())
		}
	}
	if n > s.Peak.Number {
		return readable.Share(s.Goal.Count(&s.Peak.Counts), s.Total())
	}
	return "-"
}

// printLimits says what the numbers cannot know.
func (r *suggestReport) printLimits(w io.Writer) {
	fmt.Fprintln(w)
	if r.limited > 0 {
		fmt.Fprintf(w, "%s of the log got status 429: a limit was already in force, and clients may have sent less because of it.\n", readable.Plural(r.limited, "request"))
	}
	fmt.Fprint(w, `These numbers describe this log only. They do not know growth, and days and hours that the log does not cover.
Crawlers in the log and retries during an outage raise them. Limits that applied when the log was written lower them.
Clients behind one address count as one client.
`)
}

// jsonSuggestReport is the output of --json. The help documents it.
type jsonSuggestReport struct {
	jsonSuggestHead
	Suggestions []jsonSuggestion `json:"suggestions"`
	logs.Problems
}

type jsonSuggestHead struct {
	logs.Counts
	Limited   int64  `json:"limited"`
	Untouched string `json:"untouched"`
	Of        string `json:"of"`
}

type jsonSuggestion struct {
	Template  string             `json:"template"`
	Found     bool               `json:"found"`
	Requests  int64              `json:"requests"`
	Keys      int64              `json:"keys"`
	MaxDenied int64              `json:"max_denied"`
	Best      jsonCandidate      `json:"best"`
	Interval  string             `json:"interval"`
	Bound     int64              `json:"bound"`
	Wait      string             `json:"longest_wait"`
	Never     int64              `json:"never"`
	Tighter   *jsonCandidate     `json:"tighter"`
	Irregular *jsonCandidate     `json:"irregular"`
	TopDenied []backtest.Denials `json:"top_denied"`
	Curve     []Candidate        `json:"curve"`
}

type jsonCandidate struct {
	Policy string `json:"policy"`
	*Candidate
}

func (r *suggestReport) jsonHead() (jsonSuggestHead, logs.Problems) {
	log, problems := r.log.Counts()
	return jsonSuggestHead{log, r.limited, r.goal.Share.String(), string(r.goal.Of)}, problems
}

// jsonOf returns the suggestion of a search.
func (r *suggestReport) jsonOf(search int) jsonSuggestion {
	s := &r.found[search]
	period := s.Best.Policy.Limit().Period
	return jsonSuggestion{
		Template:  s.Template.String(),
		Found:     s.Found,
		Requests:  s.Requests.Len(),
		Keys:      s.Requests.Clients(),
		MaxDenied: s.Allowed,
		Best:      *jsonCandidateOf(&s.Best),
		Interval:  period.String(),
		Bound:     s.Best.Policy.Bound(period),
		Wait:      s.Best.LongestWait.String(),
		Never:     s.Best.Never,
		Tighter:   jsonCandidateOf(s.Tighter),
		Irregular: jsonCandidateOf(s.Irregular),
		TopDenied: s.Denied[:min(len(s.Denied), r.top)],
		Curve:     s.Curve,
	}
}

func jsonCandidateOf(c *Candidate) *jsonCandidate {
	if c == nil {
		return nil
	}
	return &jsonCandidate{c.Policy.String(), c}
}
