package replay

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/costed"
)

//go:embed report.tmpl
var reportText string

var reports = report.Template(reportText, nil)

// policySubject replays policies side by side, all by the same key.
type policySubject struct {
	*accesslog.Keyer
	replay   *backtest.Replay
	policies []costed.Policy
}

func (s *policySubject) Add(_ context.Context, e *accesslog.Entry) error {
	return s.replay.Add(e.Time, s.Key(e))
}

// policyReport is what the template shows of policies.
type policyReport struct {
	backtest.Report
	Keyer        *accesslog.Keyer
	Head, Legend string
	Names        []string
	Rows         [][]any
}

func (s *policySubject) report(top int, log *logs.Summary) report.Report {
	r := policyReport{Report: s.replay.Report(top), Keyer: s.Keyer}
	r.Head = log.Head(fmt.Sprintf("%s by %v", readable.Plural(r.Keys, "key"), s.Keyer), logs.MissingInKey)
	r.Names, r.Legend = report.Columns(readable.Texts(s.policies))
	j := JSONReport{Disagreements: r.Disagreements}
	j.Counts, j.Problems = log.ForJSON()
	p := newPicture("policy", fmt.Sprintf("%s, %s, limited by %v", readable.BaseName(log.Name), log.Span(), s.Keyer), &r.Timeline)
	for i := range r.Policies {
		o := &r.Policies[i]
		r.Rows = append(r.Rows, append([]any{r.Names[i], r.Requests, o.Allowed, o.Denied, readable.Share(o.Denied, r.Requests)}, boundCells(o, r.Keys)...))
		j.Policies = append(j.Policies, jsonOf(o, r.Requests, r.Keys))
		p.addPanel(o.Policy.String(), o.Allowed, o.Denied)
	}
	return report.Report{Tables: report.Text(reports, "policies", r), JSON: j, Chart: p}
}

// boundCells returns the cells of a policy or rule from the column keys on.
func boundCells(o *backtest.Outcome, keys int64) []any {
	return []any{keys, o.KeysDenied, o.Admitted, limitOf(o.Policy.Policy), o.Bound, readable.Wait(o.LongestWait, o.Never)}
}

// limitOf returns the limit whose period the counts are for.
func limitOf(p algo.Policy) string {
	parts := backtest.Parts(p)
	limit := parts[0].Limit().String()
	if len(parts) > 1 {
		limit += fmt.Sprintf(" (part 1 of %d)", len(parts))
	}
	return limit
}

// JSONReport is the output of --json for policies. The help documents it.
type JSONReport struct {
	accesslog.Counts
	Disagreements int64        `json:"disagreements"`
	Policies      []JSONPolicy `json:"policies"`
	logs.Problems
}

// JSONPolicy is a policy of a JSONReport, or that of a rule.
type JSONPolicy struct {
	Policy      string             `json:"policy"`
	Requests    int64              `json:"requests"`
	Allowed     int64              `json:"allowed"`
	Denied      int64              `json:"denied"`
	Keys        int64              `json:"keys"`
	KeysDenied  int64              `json:"keys_denied"`
	Worst       jsonWorst          `json:"worst"`
	LongestWait string             `json:"longest_wait"`
	Never       int64              `json:"never"`
	TopDenied   []backtest.Denials `json:"top_denied"`
}

type jsonWorst struct {
	Interval string `json:"interval"`
	Admitted int64  `json:"admitted"`
	Bound    int64  `json:"bound"`
	Part     string `json:"part,omitempty"` // of all(...), the part whose period is interval
}

func jsonOf(o *backtest.Outcome, requests, keys int64) JSONPolicy {
	worst := jsonWorst{Interval: o.Policy.Limit().Period.String(), Admitted: o.Admitted, Bound: o.Bound}
	if parts := compose.StackOf(o.Policy.Policy).Parts(); len(parts) > 1 {
		worst.Part = parts[0].String()
	}
	return JSONPolicy{o.Policy.String(), requests, o.Allowed, o.Denied, keys, o.KeysDenied, worst, o.LongestWait.String(), o.Never, o.TopDenied}
}

// JSONRulesReport is the output of --json with --config. The help documents it.
type JSONRulesReport struct {
	accesslog.Counts
	Proxied  int64          `json:"proxied"`
	Together rules.Together `json:"together"`
	Rules    []JSONRule     `json:"rules"`
	LeftOut  []string       `json:"left_out"` // the names of rules
	logs.Problems
}

// JSONRule is a rule of a JSONRulesReport.
type JSONRule struct {
	rules.Head
	Alone int64 `json:"alone"`
	JSONPolicy
}

// fileReplay replays the rules of a file.
type fileReplay struct{ *rules.Subject }

// rulesReport is what the template shows of rules.
type rulesReport struct {
	backtest.RulesReport
	Head  string
	Rules []ruleText
}

// ruleText describes a rule and its counts.
type ruleText struct {
	Name, Text, Denials string
	Cells               []any
}

func (s fileReplay) report(top int, log *logs.Summary) report.Report {
	r := rulesReport{RulesReport: s.Replay.Report(top), Head: s.Describe(log)}
	j := JSONRulesReport{Proxied: s.Proxied, Together: rules.TogetherOf(&r.RulesReport), LeftOut: s.LeftOutNames()}
	j.Counts, j.Problems = log.ForJSON()
	p := newPicture("rule", fmt.Sprintf("%s, %s, rules of %s", readable.BaseName(log.Name), log.Span(), readable.BaseName(s.Name)), &r.Timeline)
	for i := range s.File.Rules {
		o, rule := &r.RulesReport.Rules[i], &s.File.Rules[i]
		name, text := rules.Name(rule), rules.Text(rule)
		alone := any(o.Alone)
		if rule.Shadow {
			alone = "-"
		}
		cells := []any{name, o.Requests, o.Allowed, o.Denied, readable.Share(o.Denied, o.Requests), alone}
		r.Rules = append(r.Rules, ruleText{name, text, rules.Denials(rule, name, o.TopDenied), append(cells, boundCells(&o.Outcome, o.Keys)...)})
		j.Rules = append(j.Rules, JSONRule{rules.HeadOf(rule), o.Alone, jsonOf(&o.Outcome, o.Requests, o.Keys)})
		p.addPanel(name+", "+text, o.Allowed, o.Denied)
	}
	p.addPanel("all together", r.Allowed, r.Denied)
	return report.Report{Tables: report.Text(reports, "rules", r), JSON: j, Chart: p}
}
