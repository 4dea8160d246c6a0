package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/cmd/sluice/internal/suggest"
)

// suggestReport has what the reports for policies and for rules have in common.
type suggestReport struct {
	log     *logSummary
	goal    suggest.Goal
	limited int64 // requests that were answered with 429
	top     int
	found   []suggest.Suggestion
}

// suggestPoliciesReport is the report for templates that share a key.
type suggestPoliciesReport struct {
	suggestReport
	keyer *accesslog.Keyer
	ipv6  int64 // requests from IPv6 addresses, if keys have addresses
}

func (r *suggestPoliciesReport) tables() string {
	w := new(strings.Builder)
	requests := r.found[0].Requests
	r.log.head(w, fmt.Sprintf("%s by %v", plural(requests.Clients(), "client"), r.keyer), missingInKey)
	fmt.Fprintf(w, "the goal: at least %v of the %v untouched, so at most %d denied\n", r.goal.Share, r.goal.Of, r.found[0].Allowed)
	var names []string
	for i := range r.found {
		names = append(names, r.found[i].Template.String())
	}
	r.printFound(w, nil)
	r.printColumns(w, "clients with at least one denied request", "the most units that the policy admits for one client; a request takes one unit, or the number after cost=")
	r.printNotes(w, names)
	r.printTopDenied(w)
	r.printCurve(w, "?", names)
	r.printLimits(w)
	if r.ipv6 > 0 {
		fmt.Fprintf(w, "%s of the log came from IPv6 addresses. Here each address is a client.\nA rule by ip limits a whole /64. To find its limit, use --config.\n", plural(r.ipv6, "request"))
	}
	return w.String()
}

// printFound prints the suggestions, and the proof that they are the tightest. rules has the rule of
// each suggestion; nil if there are no rules.
func (r *suggestReport) printFound(w io.Writer, rules []string) {
	untouched := []any{"requests denied", "untouched", "clients denied", "untouched"}
	best := [][]any{slices.Concat([]any{"policy found"}, untouched, []any{"bound", "longest wait"})}
	proof := [][]any{slices.Concat([]any{"one less"}, untouched)}
	if rules != nil {
		best[0], proof[0] = append([]any{"rule"}, best[0]...), append([]any{"rule"}, proof[0]...)
	}
	for i := range r.found {
		s := &r.found[i]
		if !s.Found {
			continue
		}
		var name []any
		if rules != nil {
			name = []any{rules[i]}
		}
		found := s.Best.Policy
		best = append(best, slices.Concat(name, []any{found}, untouchedCells(s, &s.Best.Counts),
			[]any{boundCell(found), formatWait(s.Best.LongestWait, s.Best.Never)}))
		if s.Tighter != nil {
			proof = append(proof, slices.Concat(name, []any{s.Tighter.Policy}, untouchedCells(s, &s.Tighter.Counts)))
		}
	}
	for _, rows := range [...][][]any{best, proof} {
		if len(rows) > 1 {
			printTable(w, rows)
		}
	}
}

// boundCell returns the most units that a policy admits for one key, and the interval.
func boundCell(p algo.Policy) string {
	o := outcomeOf(p)
	return fmt.Sprintf("%s in any %s", boundText(o.Bound), intervalText(o.Policy.Limit().Period))
}

// printColumns explains the columns of printFound.
func (r *suggestReport) printColumns(w io.Writer, clients, bound string) {
	if !slices.ContainsFunc(r.found, func(s suggest.Suggestion) bool { return s.Found }) {
		return
	}
	columns := [][2]string{
		{"clients denied", clients},
		{"untouched", "the share that is not denied"},
		{"bound", bound},
		{"longest wait", "the longest time until a denied request would be allowed (RetryAfter)"},
	}
	if slices.ContainsFunc(r.found, func(s suggest.Suggestion) bool { return s.Found && s.Tighter != nil }) {
		columns = append(columns, [2]string{"one less", "the same with the next smaller number, which does not meet the goal"})
	}
	fmt.Fprintln(w)
	printLegend(w, columns)
}

// untouchedCells returns the requests and the clients that are denied, and the shares of the others.
func untouchedCells(s *suggest.Suggestion, c *suggest.Counts) []any {
	requests, clients := s.Requests.Len(), s.Requests.Clients()
	return []any{c.Denied, untouchedShare(c.Denied, requests), c.ClientsDenied, untouchedShare(c.ClientsDenied, clients)}
}

// untouchedShare returns the share that is not denied. It rounds down, so that only a whole is
// 100%.
func untouchedShare(denied, whole int64) string {
	if whole == 0 {
		return "-"
	}
	const digits = 1000 // three digits after the point
	n := (whole - denied) * 100 * digits / whole
	return fmt.Sprintf("%d.%03d%%", n/digits, n%digits)
}

// outcomeOf returns the outcome of a policy without requests, which has its bound.
func outcomeOf(p algo.Policy) *replay.Outcome {
	return &replay.New(p).Report(0).Policies[0]
}

// printNotes explains suggestions that are missing or unusual.
func (r *suggestReport) printNotes(w io.Writer, names []string) {
	var notes []string
	for i := range r.found {
		s := &r.found[i]
		switch {
		case !s.Found:
			notes = append(notes, fmt.Sprintf("%s: no number meets the goal; even %v denies %s of %s (%s untouched)",
				names[i], s.Best.Policy, plural(s.Best.Denied, "request"), plural(s.Best.ClientsDenied, "client"), untouchedShare(s.Goal.Count(&s.Best.Counts), s.Total())))
		case s.Best.Number == 1:
			notes = append(notes, fmt.Sprintf("%s: 1 is the smallest number of all", names[i]))
		case s.Tighter == nil:
			notes = append(notes, fmt.Sprintf("%s: with %d it is not a valid policy", names[i], s.Best.Number-1))
		}
		if s.Irregular != nil {
			notes = append(notes, fmt.Sprintf("%s: a larger number is not always looser here; %v denies %s of %s, which is more than the goal allows",
				names[i], s.Irregular.Policy, plural(s.Irregular.Denied, "request"), plural(s.Irregular.ClientsDenied, "client")))
		}
	}
	if len(notes) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(notes, "\n"))
	}
}

func (r *suggestPoliciesReport) printTopDenied(w io.Writer) {
	var specs []string
	var columns []map[string]int64
	total := make(map[string]int64)
	for i := range r.found {
		s := &r.found[i]
		specs = append(specs, s.Best.Policy.String())
		denied := make(map[string]int64)
		for _, d := range s.Denied {
			denied[d.Key] = d.Denied
			total[d.Key] += d.Denied
		}
		columns = append(columns, denied)
	}
	var most []replay.Denials
	for k, denied := range total {
		most = append(most, replay.Denials{Key: k, Denied: denied})
	}
	replay.SortDenials(most)
	most = most[:min(len(most), r.top)]
	if len(most) == 0 {
		return
	}
	rows := [][]any{append([]any{"denied most, by " + r.keyer.String()}, columnNames(w, specs)...)}
	for _, k := range most {
		row := []any{shorten(k.Key)}
		for _, denied := range columns {
			row = append(row, denied[k.Key])
		}
		rows = append(rows, row)
	}
	printTable(w, rows)
}

// printCurve prints the share of denied requests, or clients, by number. what is the number.
func (r *suggestReport) printCurve(w io.Writer, what string, names []string) {
	const most = 12
	var peak int64
	for i := range r.found {
		peak = max(peak, r.found[i].Peak.Number)
	}
	if peak == 0 {
		return
	}
	rows := [][]any{append([]any{fmt.Sprintf("share of %v denied if %s is", r.goal.Of, what)}, columnNames(w, names)...)}
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
	printTable(w, rows)
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
func deniedAt(s *suggest.Suggestion, n int64) string {
	for i := range s.Curve {
		if s.Curve[i].Number == n {
			return share(s.Goal.Count(&s.Curve[i].Counts), s.Total())
		}
	}
	if n > s.Peak.Number {
		return share(s.Goal.Count(&s.Peak.Counts), s.Total())
	}
	return "-"
}

// printLimits says what the numbers cannot know.
func (r *suggestReport) printLimits(w io.Writer) {
	fmt.Fprintln(w)
	if r.limited > 0 {
		fmt.Fprintf(w, "%s of the log got status 429: a limit was already in force, and clients may have sent less because of it.\n", plural(r.limited, "request"))
	}
	fmt.Fprint(w, `These numbers describe this log only. They do not know growth, and days and hours that the log does not cover.
Crawlers in the log and retries during an outage raise them. Limits that applied when the log was written lower them.
Clients behind one address count as one client.
`)
}

func (r *suggestPoliciesReport) json() any {
	var j jsonSuggestReport
	j.jsonSuggestHead, j.jsonProblems = r.jsonHead()
	for i := range r.found {
		j.Suggestions = append(j.Suggestions, r.suggestReport.jsonOf(&r.found[i]))
	}
	return j
}

func (r *suggestPoliciesReport) chart() *curveChart {
	c := r.newChart(fmt.Sprintf("limited by %v", r.keyer))
	for i := range r.found {
		c.add(r.found[i].Template.String(), &r.found[i])
	}
	return c
}

// jsonSuggestReport is the output of --json. The help documents it.
type jsonSuggestReport struct {
	jsonSuggestHead
	Suggestions []jsonSuggestion `json:"suggestions"`
	jsonProblems
}

type jsonSuggestHead struct {
	jsonLog
	Limited   int64  `json:"limited"`
	Untouched string `json:"untouched"`
	Of        string `json:"of"`
}

type jsonSuggestion struct {
	Template  string           `json:"template"`
	Found     bool             `json:"found"`
	Requests  int64            `json:"requests"`
	Keys      int64            `json:"keys"`
	Allowance int64            `json:"allowance"`
	Best      jsonCandidate    `json:"best"`
	Interval  string           `json:"interval"`
	Bound     int64            `json:"bound"`
	Wait      string           `json:"longest_wait"`
	Never     int64            `json:"never"`
	Tighter   *jsonCandidate   `json:"tighter"`
	Irregular *jsonCandidate   `json:"irregular"`
	TopDenied []jsonDenied     `json:"top_denied"`
	Curve     []jsonCurvePoint `json:"curve"`
}

type jsonCandidate struct {
	Policy string `json:"policy"`
	jsonCurvePoint
}

type jsonCurvePoint struct {
	Number     int64 `json:"number"`
	Denied     int64 `json:"denied"`
	KeysDenied int64 `json:"keys_denied"`
}

func (r *suggestReport) jsonHead() (jsonSuggestHead, jsonProblems) {
	log, problems := r.log.json()
	return jsonSuggestHead{log, r.limited, r.goal.Share.String(), r.goal.Of.String()}, problems
}

func (r *suggestReport) jsonOf(s *suggest.Suggestion) jsonSuggestion {
	o := outcomeOf(s.Best.Policy)
	j := jsonSuggestion{
		Template:  s.Template.String(),
		Found:     s.Found,
		Requests:  s.Requests.Len(),
		Keys:      s.Requests.Clients(),
		Allowance: s.Allowed,
		Best:      *jsonCandidateOf(&s.Best),
		Interval:  o.Policy.Limit().Period.String(),
		Bound:     o.Bound,
		Wait:      s.Best.LongestWait.String(),
		Never:     s.Best.Never,
		Tighter:   jsonCandidateOf(s.Tighter),
		Irregular: jsonCandidateOf(s.Irregular),
		TopDenied: []jsonDenied{},
		Curve:     []jsonCurvePoint{},
	}
	for _, d := range s.Denied[:min(len(s.Denied), r.top)] {
		j.TopDenied = append(j.TopDenied, jsonDenied(d))
	}
	for i := range s.Curve {
		j.Curve = append(j.Curve, jsonPointOf(&s.Curve[i]))
	}
	return j
}

func jsonCandidateOf(c *suggest.Candidate) *jsonCandidate {
	if c == nil {
		return nil
	}
	return &jsonCandidate{c.Policy.String(), jsonPointOf(c)}
}

func jsonPointOf(c *suggest.Candidate) jsonCurvePoint {
	return jsonCurvePoint{c.Number, c.Denied, c.ClientsDenied}
}
