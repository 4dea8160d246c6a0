package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
)

// planReport is the result of sluice plan.
type planReport struct {
	replay.ComparisonReport
	log        *logSummary
	old, new   *ruleSubject
	keyer      *accesslog.Keyer
	settings   []difference // of the files, outside of their rules
	rules      []ruleChange
	strictest  []strictestBound
	thresholds []threshold // those of the command line
}

func newPlanReport(p *planRun, log *logSummary) *planReport {
	r := &planReport{ComparisonReport: p.comparison.Report(p.top), log: log, old: p.old, new: p.new, keyer: p.keyer}
	r.settings = fileDifferences(p.old.file, p.new.file)
	r.rules = compareRules(p.old, p.new, &r.ComparisonReport)
	r.strictest = strictestBounds(r.rules)
	requests := log.Entries
	if l := p.newlyDenied; l.text != "" {
		r.thresholds = append(r.thresholds, threshold{"max-newly-denied", l.text, l.most(requests), r.NewlyDenied, "request", "newly denied"})
	}
	if l := p.newlyAllowed; l.text != "" {
		r.thresholds = append(r.thresholds, threshold{"max-newly-allowed", l.text, l.most(requests), r.NewlyAllowed, "request", "newly allowed"})
	}
	if p.flags.Changed("max-clients") {
		r.thresholds = append(r.thresholds, threshold{"max-clients", fmt.Sprint(p.clients), p.clients, r.ClientsNewlyDenied, "client", "newly denied"})
	}
	return r
}

// sameRules reports whether both files have the same rules and settings.
func (r *planReport) sameRules() bool {
	for i := range r.rules {
		if r.rules[i].kind() != unchanged {
			return false
		}
	}
	return len(r.settings) == 0
}

// stricterAllows reports whether a rule that is unchanged or stricter newly allows requests. If
// settings differ, the requests can have other keys.
func (r *planReport) stricterAllows() bool {
	return len(r.settings) == 0 && slices.ContainsFunc(r.rules, func(c ruleChange) bool { return c.allowed.Denied > 0 && c.noLooser() })
}

// stricterAllowsReason explains stricterAllows.
const stricterAllowsReason = "An unchanged or stricter rule can newly allow requests: a denied request is not charged, so its units stay for other requests."

// verdict is the result in one sentence. quote formats the names of files.
func (r *planReport) verdict(quote func(string) string) string {
	before, after := quote(r.old.name), quote(r.new.name)
	switch {
	case r.sameRules():
		return fmt.Sprintf("%s and %s have the same rules, so nothing can change.", before, after)
	case r.NewlyDenied == 0 && r.NewlyAllowed == 0:
		return fmt.Sprintf("%s and %s decide alike: every request of the log gets the same decision.", before, after)
	}
	return fmt.Sprintf("Of %s, %s newly denied (%s, %s) and %s newly allowed (%s, %s).", plural(r.log.Entries, "request"),
		areNumber(r.NewlyDenied), share(r.NewlyDenied, r.log.Entries), plural(r.ClientsNewlyDenied, "client"),
		areNumber(r.NewlyAllowed), share(r.NewlyAllowed, r.log.Entries), plural(r.ClientsNewlyAllowed, "client"))
}

func areNumber(n int64) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

func (r *planReport) text() string {
	w := new(strings.Builder)
	r.head(w)
	fmt.Fprintf(w, "\n%s\n", r.verdict(func(name string) string { return name }))
	for _, t := range r.thresholds {
		fmt.Fprintf(w, "%s\n", t)
	}
	printTable(w, [][]any{
		{"file", "allowed", "share allowed", "denied", "share denied"},
		r.totals("OLD "+shorten(r.old.name), &r.Before),
		r.totals("NEW "+shorten(r.new.name), &r.After),
	})
	printTable(w, [][]any{
		{"change", "requests", "share", "clients"},
		{"newly denied", r.NewlyDenied, share(r.NewlyDenied, r.log.Entries), r.ClientsNewlyDenied},
		{"newly allowed", r.NewlyAllowed, share(r.NewlyAllowed, r.log.Entries), r.ClientsNewlyAllowed},
	})
	r.printRules(w)
	r.printClients(w)
	r.printStrictest(w)
	return w.String()
}

func (r *planReport) head(w *strings.Builder) {
	r.log.head(w, fmt.Sprintf("%s by %v", plural(r.Clients, "client"), r.keyer), r.instead)
	warn := func(requests int64, trust string) {
		if requests > 0 {
			fmt.Fprintf(w, "%s logged with the address of a proxy that %s, instead of the client's; configure the server to log the address from X-Forwarded-For\n", plural(requests, "request"), trust)
		}
	}
	if r.old.proxied == r.new.proxied {
		warn(r.new.proxied, "both files trust")
		return
	}
	warn(r.old.proxied, r.old.name+" trusts")
	warn(r.new.proxied, r.new.name+" trusts")
}

// instead describes what OLD, NEW and --by do with requests without the field.
func (r *planReport) instead(f accesslog.Fields) string {
	var words []string
	for _, s := range []*ruleSubject{r.old, r.new} {
		if _, named := s.fields(); named&f != 0 {
			words = append(words, fmt.Sprintf("in %s, %s", s.name, s.instead(f)))
		}
	}
	if r.keyer.Named()&f != 0 {
		words = append(words, "for --by, "+missingInKey(f))
	}
	return strings.Join(words, "; ")
}

func (r *planReport) totals(name string, c *replay.RulesReport) []any {
	return []any{name, c.Allowed, share(c.Allowed, c.Requests), c.Denied, share(c.Denied, c.Requests)}
}

func (r *planReport) printRules(w *strings.Builder) {
	var legend [][2]string
	rows := [][]any{{"rule", "change", "denied by OLD", "denied by NEW", "newly denied", "only by it", "newly allowed", "only by it"}}
	for i := range r.rules {
		c := &r.rules[i]
		legend = append(legend, c.legend()...)
		rows = append(rows, []any{
			c.rule().Name, c.kind(), c.before.denied(), c.after.denied(),
			c.after.share(c.denied.Denied), c.after.share(c.denied.Alone), c.before.share(c.allowed.Denied), c.before.share(c.allowed.Alone),
		})
	}
	fmt.Fprintln(w)
	printLegend(w, legend)
	if len(r.settings) > 0 {
		fmt.Fprintln(w)
	}
	for _, d := range r.settings {
		fmt.Fprintf(w, "the files differ in %s\n", d)
	}
	printTable(w, rows)
	if r.stricterAllows() {
		fmt.Fprintf(w, "\n%s\n", stricterAllowsReason)
	}
}

// legend describes the rule, its differences and its bounds.
func (c *ruleChange) legend() (entries [][2]string) {
	lines := texts(c.differences)
	if c.kind() != changed {
		lines = []string{ruleText(c.rule())}
	}
	if c.otherAlgorithm() {
		lines = append(lines, otherAlgorithmRemedy)
	}
	lines = append(lines, "requests of one key: at most "+list(c.bounds(), ", "))
	lines[0] = c.kind() + ": " + lines[0]
	name := ruleName(c.rule())
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
		return fmt.Sprintf("%d shadow", s.counts.Denied)
	}
	return s.counts.Denied
}

// share returns the cell with the part of the rule in a change.
func (s *ruleSide) share(n int64) any {
	if s == nil || s.Shadow {
		return "-"
	}
	return n
}

func (r *planReport) printClients(w *strings.Builder) {
	r.printMost(w, "newly denied", r.MostNewlyDenied, func(c *replay.ClientChange) int64 { return c.NewlyDenied })
	r.printMost(w, "newly allowed", r.MostNewlyAllowed, func(c *replay.ClientChange) int64 { return c.NewlyAllowed })
}

func (r *planReport) printMost(w *strings.Builder, change string, clients []replay.ClientChange, count func(*replay.ClientChange) int64) {
	if len(clients) == 0 {
		return
	}
	rows := [][]any{{fmt.Sprintf("most %s, by %v", change, r.keyer), change, "requests", "denied before"}}
	for i := range clients {
		c := &clients[i]
		rows = append(rows, []any{shorten(c.Client), count(c), c.Requests, c.DeniedBefore})
	}
	printTable(w, rows)
}

func (r *planReport) printStrictest(w *strings.Builder) {
	if len(r.strictest) == 0 {
		fmt.Fprintf(w, "\nno rule of %s that is not in shadow mode applied to a request\n", r.new.name)
		return
	}
	fmt.Fprintf(w, "\nthe strictest bounds of %s, for the requests of one key of a rule:\n\n", r.new.name)
	var entries [][2]string
	for _, s := range r.strictest {
		entries = append(entries, [2]string{"in any " + intervalText(s.interval), fmt.Sprintf("%s under %s, %s", s.mostText(), s.rule.Name, ruleText(s.rule))})
	}
	printLegend(w, entries)
}
