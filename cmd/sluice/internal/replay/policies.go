package replay

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
	"github.com/sluice-go/sluice/internal/costed"
)

// policySubject replays policies side by side, all by the same key.
type policySubject struct {
	logs.Keyed
	replay   *backtest.Replay
	policies []costed.Policy
}

func (s *policySubject) Add(_ context.Context, e *accesslog.Entry) error {
	return s.replay.Add(e.Time, s.KeyOf(e))
}

func (s *policySubject) report(top int, log *logs.Summary) report.Report {
	r := s.replay.Report(top)
	j := JSONReport{Disagreements: r.Disagreements}
	j.Counts, j.Problems = log.Counts()
	p := &timelinePicture{
		title:    "Allowed and denied requests under each policy",
		subtitle: fmt.Sprintf("%s, %s, limited by %v", readable.BaseName(log.Name), log.Span(), s.Keyer),
		timeline: &r.Timeline,
	}
	for i := range r.Policies {
		o := &r.Policies[i]
		j.Policies = append(j.Policies, jsonOf(o, r.Requests, r.Keys))
		p.addPanel(o.Policy.String(), o.Allowed, o.Denied)
	}
	return report.Report{Tables: s.tables(&r, log), JSON: j, Chart: p}
}

func (s *policySubject) tables(r *backtest.Report, log *logs.Summary) string {
	w := new(strings.Builder)
	log.Head(w, fmt.Sprintf("%s by %v", readable.Plural(r.Keys, "key"), s.Keyer), logs.MissingInKey)
	names := report.ColumnNames(w, readable.Texts(s.policies))
	rows := [][]any{{"policy", "requests", "allowed", "denied", "share denied", "keys", "keys denied",
		"most in a period", "limit", "bound", "longest wait"}}
	for i := range r.Policies {
		o := &r.Policies[i]
		rows = append(rows, append([]any{names[i], r.Requests, o.Allowed, o.Denied, readable.Share(o.Denied, r.Requests)}, boundCells(o, r.Keys)...))
	}
	report.Table(w, rows)
	report.PrintTopDenied(w, s.Keyer, names, r.TopDenied)
	s.printDisagreements(w, r, names)
	return w.String()
}

func (s *policySubject) printDisagreements(w io.Writer, r *backtest.Report, names []any) {
	if len(r.Policies) < 2 {
		return
	}
	fmt.Fprintf(w, "\nthe policies disagree on %d of %s", r.Disagreements, readable.Plural(r.Requests, "request"))
	if r.Disagreements == 0 {
		fmt.Fprintln(w)
		return
	}
	fmt.Fprint(w, ", for instance:\n")
	words := map[bool]string{true: "ok", false: "deny"}
	rows := [][]any{append([]any{"time", s.Keyer}, names...)}
	for _, e := range r.Examples {
		row := []any{e.Time.Format(logs.Stamp), readable.Shorten(e.Key)}
		for _, allowed := range e.Allowed {
			row = append(row, words[allowed])
		}
		rows = append(rows, row)
	}
	report.Table(w, rows)
}

// boundCells returns the cells of a policy or rule from the column keys on.
func boundCells(o *backtest.Outcome, keys int64) []any {
	return []any{keys, o.KeysDenied, o.Admitted, limitOf(o.Policy.Policy), o.Bound, readable.Wait(o.LongestWait, o.Never)}
}

// limitOf returns the limit whose period the counts are for.
func limitOf(p algo.Policy) string {
	all := rules.Limits(p)
	if len(all) > 1 {
		return fmt.Sprintf("%v (part 1 of %d)", all[0], len(all))
	}
	return all[0].String()
}

// JSONReport is the output of --json for policies. The help documents it.
type JSONReport struct {
	logs.Counts
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
	j := JSONPolicy{
		Policy:      o.Policy.String(),
		Requests:    requests,
		Allowed:     o.Allowed,
		Denied:      o.Denied,
		Keys:        keys,
		KeysDenied:  o.KeysDenied,
		Worst:       jsonWorst{Interval: o.Policy.Limit().Period.String(), Admitted: o.Admitted, Bound: o.Bound},
		LongestWait: o.LongestWait.String(),
		Never:       o.Never,
		TopDenied:   o.TopDenied,
	}
	if parts := backtest.Parts(o.Policy.Policy); len(parts) > 1 {
		j.Worst.Part = parts[0].String()
	}
	return j
}
