package plan

import (
	_ "embed"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
)

// planReport is the result of sluice plan. Its JSON is the output of --json, which the help
// documents.
type planReport struct {
	accesslog.Counts
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
	// LeftOut has the names of the rules that cannot be replayed.
	LeftOut []string `json:"left_out"`

	subject *rules.Subject
}

func newPlanFile(s *rules.Subject, counts *backtest.RulesReport) planFile {
	return planFile{s.Name, counts.Allowed, counts.Denied, s.Proxied, s.LeftOutNames(), s}
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
	r.Counts, r.Problems = log.ForJSON()
	r.SameRules = len(r.Settings) == 0 && sameRules(p.old.LeftOut, p.new.LeftOut) && !slices.ContainsFunc(r.Rules, func(c ruleChange) bool { return c.Change != unchanged })
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

// text returns the report in one of the two forms.
func (r *planReport) text(markdown bool) string {
	if markdown {
		return report.Render(markdownReports, "markdown", r, markdownTables)
	}
	return report.Text(textReports, "text", r)
}

//go:embed report.tmpl
var reportText string

var (
	textReports     = reportTemplate(func(text string) string { return text })
	markdownReports = reportTemplate(markdownCode)
)

// reportTemplate returns the template with a function for names and other texts.
func reportTemplate(quote func(string) string) *template.Template {
	return report.Template(reportText, template.FuncMap{"quote": quote, "markdownLog": markdownLog})
}

// StricterAllows reports whether a rule that is unchanged or stricter newly allows requests. If
// settings differ, the requests can have other keys.
func (r *planReport) StricterAllows() bool {
	return len(r.Settings) == 0 && slices.ContainsFunc(r.Rules, func(c ruleChange) bool { return c.NewlyAllowed > 0 && c.noLooser() })
}

// Exceeded reports whether a threshold is exceeded.
func (r *planReport) Exceeded() bool {
	return slices.ContainsFunc(r.Thresholds, func(t threshold) bool { return t.Exceeded })
}

func (r *planReport) HasProblems() bool {
	return r.log.HasProblems() || r.Old.Proxied+r.New.Proxied > 0
}

// LeftOut says which rules of both files cannot be replayed, and why.
func (r *planReport) LeftOut() (all []string) {
	for _, s := range []*rules.Subject{r.Old.subject, r.New.subject} {
		for i := range s.LeftOut {
			all = append(all, readable.Graphic(s.Name)+": "+rules.WhyLeftOut(&s.LeftOut[i]))
		}
	}
	return all
}

// Head describes the log.
func (r *planReport) Head() string {
	text := r.log.Head(fmt.Sprintf("%s by %s", readable.Plural(r.Clients.All, "client"), r.By), r.Instead) + r.Estimates()
	warn := func(requests int64, trust string) {
		if requests > 0 {
			text += fmt.Sprintf("%s logged with the address of a proxy that %s, instead of the client's; configure the server to log the address from X-Forwarded-For\n", readable.Plural(requests, "request"), trust)
		}
	}
	if r.Old.Proxied == r.New.Proxied {
		warn(r.New.Proxied, "both files trust")
		return text
	}
	warn(r.Old.Proxied, r.Old.File+" trusts")
	warn(r.New.Proxied, r.New.File+" trusts")
	return text
}

// Estimates names the rules of both files whose actual cost logs do not have.
func (r *planReport) Estimates() (text string) {
	if same := r.Old.subject.Estimates(); same == r.New.subject.Estimates() {
		return same
	}
	for _, s := range []*rules.Subject{r.Old.subject, r.New.subject} {
		for line := range strings.Lines(s.Estimates()) {
			text += readable.Graphic(s.Name) + ": " + line
		}
	}
	return text
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

// Legend describes the rule, its differences and its bounds.
func (c *ruleChange) Legend() (legend string) {
	lines := readable.Texts(c.Differences)
	if c.Change != changed {
		lines = []string{rules.Text(c.rule)}
	}
	if c.OtherAlgorithm {
		lines = append(lines, otherAlgorithmEffect)
	}
	lines = append(lines, "one key: at most "+readable.List(c.Bounds, ", "))
	lines[0] = c.Change + ": " + lines[0]
	name := rules.Name(c.rule)
	for _, line := range lines {
		legend += report.Entry(name, line) + "\n"
		name = ""
	}
	return legend
}

// DeniedCell returns the cell with the requests that the rule denied, or would deny without shadow mode.
func (s *ruleSide) DeniedCell() string {
	switch {
	case s == nil:
		return "-"
	case s.Shadow:
		return fmt.Sprintf("%d shadow", s.Denied)
	}
	return fmt.Sprint(s.Denied)
}

// Cell returns the cell with the part of the rule in a change.
func (s *ruleSide) Cell(n int64) string {
	if s == nil || s.Shadow {
		return "-"
	}
	return fmt.Sprint(n)
}

// shareLimit is the value of a flag that limits a number of requests: a whole number, or a
// percentage of all requests.
type shareLimit struct {
	text  string // empty: the flag is not given
	count int64
	share *big.Rat // of a percentage
}

// Set implements pflag.Value.
func (l *shareLimit) Set(text string) error {
	count, err := strconv.ParseUint(text, 10, 63)
	share, percentage := cli.ParsePercentage(text)
	if err != nil && !percentage {
		return errors.New("want a whole number of requests such as 100, or a share of all requests from 0% to 100%, such as 0.1%")
	}
	*l = shareLimit{text, int64(count), share}
	return nil
}

// String implements pflag.Value.
func (l *shareLimit) String() string { return l.text }

// Type implements pflag.Value. It is a word of the help.
func (l *shareLimit) Type() string { return "LIMIT" }

// most returns the largest number of requests within the limit. A share is rounded down, so that
// a number of requests is within it if it is at most the result.
func (l *shareLimit) most(requests int64) int64 {
	if l.share == nil {
		return l.count
	}
	return cli.Part(l.share, requests)
}

// threshold is a flag that limits the change, with the count that it limits.
type threshold struct {
	Flag     string `json:"flag"`  // such as max-newly-denied
	Limit    string `json:"limit"` // the value of the flag, such as 0.1%
	Most     int64  `json:"most"`  // the largest count within the limit
	Count    int64  `json:"count"`
	Exceeded bool   `json:"exceeded"`

	unit   string // request or client
	change string // newly denied or newly allowed
}

// String describes the threshold, the count and the largest count within the threshold.
func (t threshold) String() string {
	within := "within"
	if t.Exceeded {
		within = "beyond"
	}
	return fmt.Sprintf("%s --%s %s: %s %s %s, and at most %d may be", within, t.Flag, t.Limit, readable.Plural(t.Count, t.unit), readable.Are(t.Count), t.change, t.Most)
}
