package replay

import (
	"fmt"

	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
)

// JSONRulesReport is the output of --json with --config. The help documents it.
type JSONRulesReport struct {
	logs.Counts
	Proxied  int64          `json:"proxied"`
	Together rules.Together `json:"together"`
	Rules    []JSONRule     `json:"rules"`
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
	j := JSONRulesReport{Proxied: s.Proxied, Together: rules.TogetherOf(&r.RulesReport)}
	j.Counts, j.Problems = log.Counts()
	p := newPicture("rule", fmt.Sprintf("%s, %s, rules of %s", readable.BaseName(log.Name), log.Span(), readable.BaseName(s.Name)), &r.Timeline)
	for i := range s.File.Rules {
		o, rule := &r.RulesReport.Rules[i], &s.File.Rules[i]
		name, text := rules.Name(rule), rules.Text(rule)
		alone := any(o.Alone)
		if o.Shadow {
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
