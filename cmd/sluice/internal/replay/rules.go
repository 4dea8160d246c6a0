package replay

import (
	"fmt"
	"strings"

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
	Rule   string   `json:"rule"`
	By     []string `json:"by"`
	Cost   int64    `json:"cost"`
	Shadow bool     `json:"shadow"`
	Alone  int64    `json:"alone"`
	JSONPolicy
}

// fileReplay replays the rules of a file.
type fileReplay struct{ *rules.Subject }

const together = "all together" // the name of the table's last row

func (s fileReplay) report(top int, log *logs.Summary) report.Report {
	r := s.Replay.Report(top)
	j := JSONRulesReport{Proxied: s.Proxied, Together: rules.TogetherOf(&r)}
	j.Counts, j.Problems = log.Counts()
	p := &timelinePicture{
		title:    "Allowed and denied requests under each rule",
		subtitle: fmt.Sprintf("%s, %s, rules of %s", readable.BaseName(log.Name), log.Span(), readable.BaseName(s.Name)),
		timeline: &r.Timeline,
	}
	for i := range r.Rules {
		o, rule := &r.Rules[i], &s.File.Rules[i]
		j.Rules = append(j.Rules, JSONRule{
			Rule: rule.Name, By: readable.Texts(rule.By), Cost: rule.Cost.Units, Shadow: rule.Shadow, Alone: o.Alone,
			JSONPolicy: jsonOf(&o.Outcome, o.Requests, o.Keys),
		})
		p.addPanel(rules.Name(rule)+", "+rules.Text(rule), o.Allowed, o.Denied)
	}
	p.addPanel(together, r.Allowed, r.Denied)
	return report.Report{Tables: s.tables(&r, log), JSON: j, Chart: p}
}

func (s fileReplay) tables(r *backtest.RulesReport, log *logs.Summary) string {
	w := new(strings.Builder)
	log.Head(w, fmt.Sprintf("%s of %s", readable.Plural(int64(len(r.Rules)), "rule"), readable.Graphic(s.Name)), s.Instead)
	s.PrintProxied(w)
	fmt.Fprintln(w)
	var legend [][2]string
	rows := [][]any{{"rule", "requests", "allowed", "denied", "share denied", "only by it", "keys", "keys denied",
		"most in a period", "limit", "bound", "longest wait"}}
	for i := range r.Rules {
		o, rule := &r.Rules[i], &s.File.Rules[i]
		legend = append(legend, [2]string{rules.Name(rule), rules.Text(rule)})
		alone := any(o.Alone)
		if o.Shadow {
			alone = "-"
		}
		row := []any{rules.Name(rule), o.Requests, o.Allowed, o.Denied, readable.Share(o.Denied, o.Requests), alone}
		rows = append(rows, append(row, boundCells(&o.Outcome, o.Keys)...))
	}
	rows = append(rows, []any{together, r.Requests, r.Allowed, r.Denied, readable.Share(r.Denied, r.Requests),
		"", "", "", "", "", "", readable.Wait(r.LongestWait, r.Never)})
	report.Legend(w, legend)
	report.Table(w, rows)
	for i, o := range r.Rules {
		rules.PrintDenials(w, &s.File.Rules[i], rules.Name(&s.File.Rules[i]), o.TopDenied)
	}
	return w.String()
}
