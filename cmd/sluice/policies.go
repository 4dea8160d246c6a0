package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/internal/costed"
)

// policySubject replays policies side by side, all by the same key.
type policySubject struct {
	keyed
	replay   *replay.Replay
	policies []costed.Policy
}

func (s *policySubject) add(_ context.Context, e *accesslog.Entry) error {
	return s.replay.Add(e.Time, s.keyOf(e))
}

func (s *policySubject) report(top int, log *logSummary) report {
	r := s.replay.Report(top)
	j := jsonReport{Disagreements: r.Disagreements}
	j.jsonLog, j.jsonProblems = log.json()
	p := &picture{
		title:    "Allowed and denied requests under each policy",
		subtitle: fmt.Sprintf("%s, %s, limited by %v", baseName(log.name), log.span(), s.keyer),
		timeline: &r.Timeline,
	}
	for i := range r.Policies {
		o := &r.Policies[i]
		j.Policies = append(j.Policies, jsonOf(o, r.Requests, r.Keys))
		p.addPanel(o.Policy.String(), o.Allowed, o.Denied)
	}
	return report{s.tables(&r, log), j, p}
}

func (s *policySubject) tables(r *replay.Report, log *logSummary) string {
	w := new(strings.Builder)
	log.head(w, fmt.Sprintf("%s by %v", plural(r.Keys, "key"), s.keyer), missingInKey)
	names := columnNames(w, texts(s.policies))
	rows := [][]any{{"policy", "requests", "allowed", "denied", "share denied", "keys", "keys denied",
		"most in a period", "limit", "bound", "longest wait"}}
	for i := range r.Policies {
		o := &r.Policies[i]
		rows = append(rows, append([]any{names[i], r.Requests, o.Allowed, o.Denied, share(o.Denied, r.Requests)}, boundCells(o, r.Keys)...))
	}
	printTable(w, rows)
	printTopDenied(w, s.keyer, names, r.TopDenied)
	s.printDisagreements(w, r, names)
	return w.String()
}

// missingInKey describes what a key has in place of a missing field.
func missingInKey(f accesslog.Fields) string {
	if f&(accesslog.User|accesslog.Key) != 0 {
		return "their key has ip:ADDRESS instead, or - if they have no address"
	}
	return "their key has - instead"
}

// columnNames returns the names of columns: the specs, or numbers if specs would make the tables
// too wide. It prints the legend of the numbers.
func columnNames(w io.Writer, specs []string) (names []any) {
	const widest = 100
	var legend [][2]string
	width := 0
	for i, spec := range specs {
		names = append(names, spec)
		legend = append(legend, [2]string{fmt.Sprintf("#%d", i+1), spec})
		width += len(spec)
	}
	if width <= widest {
		return names
	}
	fmt.Fprintln(w)
	printLegend(w, legend)
	for i := range names {
		names[i] = legend[i][0]
	}
	return names
}

// printTopDenied prints the keys that are denied most, with their denials in the named columns.
func printTopDenied(w io.Writer, keyer *accesslog.Keyer, names []any, most []replay.KeyDenials) {
	rows := [][]any{append([]any{"denied most, by " + keyer.String()}, names...)}
	for _, k := range most {
		row := []any{shorten(k.Key)}
		for _, n := range k.Denied {
			row = append(row, n)
		}
		rows = append(rows, row)
	}
	printTable(w, rows)
}

func (s *policySubject) printDisagreements(w io.Writer, r *replay.Report, names []any) {
	if len(r.Policies) < 2 {
		return
	}
	fmt.Fprintf(w, "\nthe policies disagree on %d of %s", r.Disagreements, plural(r.Requests, "request"))
	if r.Disagreements == 0 {
		fmt.Fprintln(w)
		return
	}
	fmt.Fprint(w, ", for instance:\n")
	words := map[bool]string{true: "ok", false: "deny"}
	rows := [][]any{append([]any{"time", s.keyer}, names...)}
	for _, e := range r.Examples {
		row := []any{e.Time.Format(stamp), shorten(e.Key)}
		for _, allowed := range e.Allowed {
			row = append(row, words[allowed])
		}
		rows = append(rows, row)
	}
	printTable(w, rows)
}
