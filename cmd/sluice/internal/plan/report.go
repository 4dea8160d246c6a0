package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
)

// planReport is the result of sluice plan. Its JSON is the output of --json, which the help
// documents.
type planReport struct {
	logs.Counts
	Requests int64    `json:"requests"`
	Old      planFile `json:"old"`
	New      planFile `json:"new"`
	By       string   `json:"by"`
	backtest.ComparisonReport
	SameRules  bool             `json:"same_rules"` // and the same settings
	Settings   []difference     `json:"settings"`   // of the files, outside of their rules
	Rules      []ruleChange     `json:"rules"`
	Strictest  []strictestBound `json:"strictest"`
	Thresholds []threshold      `json:"thresholds"` // those of the command line
	logs.Problems

	log   *logs.Summary
	keyer *accesslog.Keyer
}

// planFile is one of the two files, with the counts of all its rules together.
type planFile struct {
	File    string `json:"file"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied"`
	Proxied int64  `json:"proxied"`

	subject *rules.Subject
}

func newPlanFile(s *rules.Subject, r *backtest.RulesReport) planFile {
	return planFile{s.Name, r.Allowed, r.Denied, s.Proxied, s}
}

func newPlanReport(p *planRun, log *logs.Summary) *planReport {
	c := p.comparison.Report(p.Top)
	r := &planReport{
		Requests:         log.Entries,
		Old:              newPlanFile(p.old, &c.Before),
		New:              newPlanFile(p.new, &c.After),
		By:               p.Keyer.String(),
		ComparisonReport: c,
		Settings:         fileDifferences(p.old.File, p.new.File),
		Rules:            compareRules(p.old, p.new, &c),
		Thresholds:       []threshold{}, // nil would be null in JSON
		log:              log,
		keyer:            p.Keyer,
	}
	r.Counts, r.Problems = log.Counts()
	r.SameRules = len(r.Settings) == 0 && !slices.ContainsFunc(r.Rules, func(c ruleChange) bool { return c.Change != unchanged })
	r.Strictest = strictestBounds(r.Rules)
	for _, t := range []threshold{
		{Flag: "max-newly-denied", Limit: p.newlyDenied.text, Most: p.newlyDenied.most(r.Requests), Count: r.NewlyDenied, unit: "request", change: "newly denied"},
		{Flag: "max-newly-allowed", Limit: p.newlyAllowed.text, Most: p.newlyAllowed.most(r.Requests), Count: r.NewlyAllowed, unit: "request", change: "newly allowed"},
		{Flag: "max-clients", Limit: fmt.Sprint(p.clients), Most: p.clients, Count: r.Clients.NewlyDenied, unit: "client", change: "newly denied"},
	} {
		if p.Flags.Changed(t.Flag) {
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
	return fmt.Sprintf("Of %s, %d %s newly denied (%s, %s) and %d %s newly allowed (%s, %s).", readable.Plural(r.Requests, "request"),
		r.NewlyDenied, readable.Are(r.NewlyDenied), readable.Share(r.NewlyDenied, r.Requests), readable.Plural(r.Clients.NewlyDenied, "client"),
		r.NewlyAllowed, readable.Are(r.NewlyAllowed), readable.Share(r.NewlyAllowed, r.Requests), readable.Plural(r.Clients.NewlyAllowed, "client"))
}

func (r *planReport) text() string {
	w := new(strings.Builder)
	r.Head(w)
	fmt.Fprintf(w, "\n%s\n", r.conclusion(func(name string) string { return name }))
	for _, t := range r.Thresholds {
		fmt.Fprintf(w, "%s\n", t)
	}
	report.Table(w, r.totals(readable.Shorten))
	report.Table(w, [][]any{
		{"change", "requests", "share", "clients"},
		{"newly denied", r.NewlyDenied, readable.Share(r.NewlyDenied, r.Requests), r.Clients.NewlyDenied},
		{"newly allowed", r.NewlyAllowed, readable.Share(r.NewlyAllowed, r.Requests), r.Clients.NewlyAllowed},
	})
	r.printRules(w)
	for _, rows := range r.clientTables(readable.Shorten) {
		report.Table(w, rows)
	}
	r.printStrictest(w)
	return w.String()
}

func (r *planReport) Head(w *strings.Builder) {
	r.log.Head(w, fmt.Sprintf("%s by %s", readable.Plural(r.Clients.All, "client"), r.By), r.Instead)
	warn := func(requests int64, trust string) {
		if requests > 0 {
			fmt.Fprintf(w, "%s logged with the address of a proxy that %s, instead of the client's; configure the server to log the address from X-Forwarded-For\n", readable.Plural(requests, "request"), trust)
		}
	}
	if r.Old.Proxied == r.New.Proxied {
		warn(r.New.Proxied, "both files trust")
		return
	}
	warn(r.Old.Proxied, r.Old.File+" trusts")
	warn(r.New.Proxied, r.New.File+" trusts")
}

// Instead describes what OLD, NEW and --by do with requests without the field.
func (r *planReport) Instead(f accesslog.Fields) string {
	var words []string
	for _, s := range []*rules.Subject{r.Old.subject, r.New.subject} {
		if _, named := s.Fields(); named&f != 0 {
			words = append(words, fmt.Sprintf("in %s, %s", s.Name, s.Instead(f)))
		}
	}
	if r.keyer.Named()&f != 0 {
		words = append(words, "for --by, "+logs.MissingInKey(f))
	}
	return strings.Join(words, "; ")
}

// totals returns the table of both files. quote formats their names.
func (r *planReport) totals(quote func(string) string) [][]any {
	row := func(name string, f *planFile) []any {
		return []any{name, f.Allowed, readable.Share(f.Allowed, r.Requests), f.Denied, readable.Share(f.Denied, r.Requests)}
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
	report.Legend(w, legend)
	if len(r.Settings) > 0 {
		fmt.Fprintln(w)
	}
	for _, d := range r.Settings {
		fmt.Fprintf(w, "the files differ in %s\n", d)
	}
	report.Table(w, rows)
	if r.stricterAllows() {
		fmt.Fprintf(w, "\n%s\n", stricterAllowsReason)
	}
}

// legend describes the rule, its differences and its bounds.
func (c *ruleChange) legend() (entries [][2]string) {
	lines := readable.Texts(c.Differences)
	if c.Change != changed {
		lines = []string{rules.Text(c.rule)}
	}
	if c.OtherAlgorithm {
		lines = append(lines, otherAlgorithmEffect)
	}
	lines = append(lines, "requests of one key: at most "+readable.List(c.Bounds, ", "))
	lines[0] = c.Change + ": " + lines[0]
	name := rules.Name(c.rule)
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
		entries = append(entries, [2]string{"in any " + rules.IntervalText(s.length), fmt.Sprintf("%s under %s, %s", s.mostText(), s.Rule, rules.Text(s.rule))})
	}
	report.Legend(w, entries)
}
