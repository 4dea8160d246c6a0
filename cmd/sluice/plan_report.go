package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
)

// planReport is the result of sluice plan. Its JSON is the output of --json, which the help
// documents.
type planReport struct {
	jsonLog
	Requests int64    `json:"requests"`
	Old      planFile `json:"old"`
	New      planFile `json:"new"`
	By       string   `json:"by"`
	replay.ComparisonReport
	SameRules  bool             `json:"same_rules"` // and the same settings
	Settings   []difference     `json:"settings"`   // of the files, outside of their rules
	Rules      []ruleChange     `json:"rules"`
	Strictest  []strictestBound `json:"strictest"`
	Thresholds []threshold      `json:"thresholds"` // those of the command line
	jsonProblems

	log   *logSummary
	keyer *accesslog.Keyer
}

// planFile is one of the two files, with the counts of all its rules together.
type planFile struct {
	File    string `json:"file"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied"`
	Proxied int64  `json:"proxied"`

	subject *ruleSubject
}

func newPlanFile(s *ruleSubject, r *replay.RulesReport) planFile {
	return planFile{s.name, r.Allowed, r.Denied, s.proxied, s}
}

func newPlanReport(p *planRun, log *logSummary) *planReport {
	c := p.comparison.Report(p.top)
	r := &planReport{
		Requests:         log.Entries,
		Old:              newPlanFile(p.old, &c.Before),
		New:              newPlanFile(p.new, &c.After),
		By:               p.keyer.String(),
		ComparisonReport: c,
		Settings:         fileDifferences(p.old.file, p.new.file),
		Rules:            compareRules(p.old, p.new, &c),
		Thresholds:       []threshold{}, // nil would be null in JSON
		log:              log,
		keyer:            p.keyer,
	}
	r.jsonLog, r.jsonProblems = log.json()
	r.SameRules = len(r.Settings) == 0 && !slices.ContainsFunc(r.Rules, func(c ruleChange) bool { return c.Change != unchanged })
	r.Strictest = strictestBounds(r.Rules)
	for _, t := range []threshold{
		{Flag: "max-newly-denied", Limit: p.newlyDenied.text, Most: p.newlyDenied.most(r.Requests), Count: r.NewlyDenied, unit: "request", change: "newly denied"},
		{Flag: "max-newly-allowed", Limit: p.newlyAllowed.text, Most: p.newlyAllowed.most(r.Requests), Count: r.NewlyAllowed, unit: "request", change: "newly allowed"},
		{Flag: "max-clients", Limit: fmt.Sprint(p.clients), Most: p.clients, Count: r.Clients.NewlyDenied, unit: "client", change: "newly denied"},
	} {
		if p.flags.Changed(t.Flag) {
			t.Exceeded = t.Count > t.Most
			r.Thresholds = append(r.Thresholds, t)
		}
	}
	return r
}

// stricterAllows reports whether a rule that is unchanged or stricter newly allows requests. If
// settings differ, the requests can have other keys.
func (r *planReport) stricterAllows() bool {
	return len(r.Settings) == 0 && slices.ContainsFunc(r.Rules, func(c ruleChange) bool { return c.NewlyAllowed > 0 && c.noLooser() })
}

// stricterAllowsReason explains stricterAllows.
const stricterAllowsReason = "An unchanged or stricter rule can newly allow requests: a denied request is not charged, so its units stay for other requests."

// conclusion returns the result in one sentence. quote formats the names of files.
func (r *planReport) conclusion(quote func(string) string) string {
	before, after := quote(r.Old.File), quote(r.New.File)
	switch {
	case r.SameRules:
		return fmt.Sprintf("%s and %s have the same rules, so nothing can change.", before, after)
	case r.NewlyDenied == 0 && r.NewlyAllowed == 0:
		return fmt.Sprintf("%s and %s decide alike: every request of the log gets the same decision.", before, after)
	}
	return fmt.Sprintf("Of %s, %d %s newly denied (%s, %s) and %d %s newly allowed (%s, %s).", plural(r.Requests, "request"),
		r.NewlyDenied, are(r.NewlyDenied), share(r.NewlyDenied, r.Requests), plural(r.Clients.NewlyDenied, "client"),
		r.NewlyAllowed, are(r.NewlyAllowed), share(r.NewlyAllowed, r.Requests), plural(r.Clients.NewlyAllowed, "client"))
}

func (r *planReport) text() string {
	w := new(strings.Builder)
	r.head(w)
	fmt.Fprintf(w, "\n%s\n", r.conclusion(func(name string) string { return name }))
	for _, t := range r.Thresholds {
		fmt.Fprintf(w, "%s\n", t)
	}
	printTable(w, r.totals(shorten))
	printTable(w, [][]any{
		{"change", "requests", "share", "clients"},
		{"newly denied", r.NewlyDenied, share(r.NewlyDenied, r.Requests), r.Clients.NewlyDenied},
		{"newly allowed", r.NewlyAllowed, share(r.NewlyAllowed, r.Requests), r.Clients.NewlyAllowed},
	})
	r.printRules(w)
	for _, rows := range r.clientTables(shorten) {
		printTable(w, rows)
	}
	r.printStrictest(w)
	return w.String()
}

func (r *planReport) head(w *strings.Builder) {
	r.log.head(w, fmt.Sprintf("%s by %s", plural(r.Clients.All, "client"), r.By), r.instead)
	warn := func(requests int64, trust string) {
		if requests > 0 {
			fmt.Fprintf(w, "%s logged with the address of a proxy that %s, instead of the client's; configure the server to log the address from X-Forwarded-For\n", plural(requests, "request"), trust)
		}
	}
	if r.Old.Proxied == r.New.Proxied {
		warn(r.New.Proxied, "both files trust")
		return
	}
	warn(r.Old.Proxied, r.Old.File+" trusts")
	warn(r.New.Proxied, r.New.File+" trusts")
}

// instead describes what OLD, NEW and --by do with requests without the field.
func (r *planReport) instead(f accesslog.Fields) string {
	var words []string
	for _, s := range []*ruleSubject{r.Old.subject, r.New.subject} {
		if _, named := s.fields(); named&f != 0 {
			words = append(words, fmt.Sprintf("in %s, %s", s.name, s.instead(f)))
		}
	}
	if r.keyer.Named()&f != 0 {
		words = append(words, "for --by, "+missingInKey(f))
	}
	return strings.Join(words, "; ")
}

// totals returns the table of both files. quote formats their names.
func (r *planReport) totals(quote func(string) string) [][]any {
	row := func(name string, f *planFile) []any {
		return []any{name, f.Allowed, share(f.Allowed, r.Requests), f.Denied, share(f.Denied, r.Requests)}
	}
	return [][]any{
		{"file", "allowed", "share allowed", "denied", "share denied"},
		row("OLD "+quote(r.Old.File), &r.Old),
		row("NEW "+quote(r.New.File), &r.New),
	}
}

// clientTables returns the tables of the clients with the most newly denied and newly allowed
// requests. quote formats the names of the clients.
func (r *planReport) clientTables(quote func(string) string) [2][][]any {
	denied := [][]any{{"most newly denied, by " + r.By, "newly denied", "requests", "denied before"}}
	for _, c := range r.MostNewlyDenied {
		denied = append(denied, []any{quote(c.Client), c.NewlyDenied, c.Requests, c.DeniedBefore})
	}
	allowed := [][]any{{"most newly allowed, by " + r.By, "newly allowed", "requests", "denied before"}}
	for _, c := range r.MostNewlyAllowed {
		allowed = append(allowed, []any{quote(c.Client), c.NewlyAllowed, c.Requests, c.DeniedBefore})
	}
	return [2][][]any{denied, allowed}
}

func (r *planReport) printRules(w *strings.Builder) {
	var legend [][2]string
	rows := [][]any{{"rule", "change", "denied by OLD", "denied by NEW", "newly denied", "only by it", "newly allowed", "only by it"}}
	for i := range r.Rules {
		c := &r.Rules[i]
		legend = append(legend, c.legend()...)
		rows = append(rows, []any{
			c.Rule, c.Change, c.Old.denied(), c.New.denied(),
			c.New.share(c.NewlyDenied), c.New.share(c.NewlyDeniedAlone), c.Old.share(c.NewlyAllowed), c.Old.share(c.NewlyAllowedAlone),
		})
	}
	fmt.Fprintln(w)
	printLegend(w, legend)
	if len(r.Settings) > 0 {
		fmt.Fprintln(w)
	}
	for _, d := range r.Settings {
		fmt.Fprintf(w, "the files differ in %s\n", d)
	}
	printTable(w, rows)
	if r.stricterAllows() {
		fmt.Fprintf(w, "\n%s\n", stricterAllowsReason)
	}
}

// legend describes the rule, its differences and its bounds.
func (c *ruleChange) legend() (entries [][2]string) {
	lines := texts(c.Differences)
	if c.Change != changed {
		lines = []string{ruleText(c.rule)}
	}
	if c.OtherAlgorithm {
		lines = append(lines, otherAlgorithmEffect)
	}
	lines = append(lines, "requests of one key: at most "+list(c.Bounds, ", "))
	lines[0] = c.Change + ": " + lines[0]
	name := ruleName(c.rule)
	for _, line := range lines {
		entries = append(entries, [2]string{name, line})
		name = ""
	}
	return entries
}

// denied returns the cell with the requests that the rule denied, or would deny without shadow mode.
func (s *ruleSide) denied() any {
	switch {
	case s == nil:
		return "-"
	case s.Shadow:
		return fmt.Sprintf("%d shadow", s.Denied)
	}
	return s.Denied
}

// share returns the cell with the part of the rule in a change.
func (s *ruleSide) share(n int64) any {
	if s == nil || s.Shadow {
		return "-"
	}
	return n
}

func (r *planReport) printStrictest(w *strings.Builder) {
	if len(r.Strictest) == 0 {
		fmt.Fprintf(w, "\nno rule of %s that is not in shadow mode applied to a request\n", r.New.File)
		return
	}
	fmt.Fprintf(w, "\nthe strictest bounds of %s: for each interval the rule with the smallest bound, for requests of one key of the rule\n\n", r.New.File)
	var entries [][2]string
	for _, s := range r.Strictest {
		entries = append(entries, [2]string{"in any " + intervalText(s.length), fmt.Sprintf("%s under %s, %s", s.mostText(), s.Rule, ruleText(s.rule))})
	}
	printLegend(w, entries)
}
