package plan

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
)

// Sizes of the Markdown in bytes. Together, its parts are below 65,536 characters: GitHub refuses a
// longer comment.
const (
	maxMarkdownRules   = 24_000 // the table of rules
	maxMarkdownClients = 6_000  // a table of clients
	maxMarkdownLog     = 4_000  // what plan says about the log
)

// maxMarkdownText is the most characters of one text, such as the paths of a rule.
const maxMarkdownText = 500

// markdown returns the report for a pull request. Its first line is the conclusion.
func (r *planReport) markdown() string {
	w := new(strings.Builder)
	fmt.Fprintf(w, "%s\n", r.markdownConclusion())
	if len(r.Thresholds) > 0 {
		fmt.Fprintln(w)
	}
	for _, t := range r.Thresholds {
		fmt.Fprintf(w, "- %s\n", t)
	}
	printMarkdownTable(w, r.totals(markdownCode))
	r.markdownRules(w)
	if r.stricterAllows() {
		fmt.Fprintf(w, "\n%s\n", stricterAllowsReason)
	}
	for _, rows := range r.clientTables(func(name string) string { return markdownCode(readable.Shorten(name)) }) {
		printMarkdownTableWithin(w, rows, nil, maxMarkdownClients, "client")
	}
	fmt.Fprintf(w, "\n%s\n", r.markdownStrictest())
	head := new(strings.Builder)
	r.Head(head)
	details := "<details><summary>The log</summary>"
	if r.log.HasProblems() || r.Old.Proxied+r.New.Proxied > 0 {
		details = "<details open><summary>The log, which has problems</summary>"
	}
	fmt.Fprintf(w, "\n%s\n\n<pre>\n%s</pre>\n\n</details>\n", details, markdownLog(head.String()))
	return w.String()
}

// markdownLog returns the content of <pre>. Markdown does not read it, so only HTML must be escaped.
func markdownLog(text string) string {
	w := new(strings.Builder)
	lines := slices.Collect(strings.Lines(text))
	for i, line := range lines {
		line = html.EscapeString(readable.Cut(readable.Graphic(strings.TrimSuffix(line, "\n")), maxMarkdownText)) + "\n"
		if w.Len()+len(line) > maxMarkdownLog {
			fmt.Fprintf(w, "not shown: %s\n", readable.Plural(int64(len(lines)-i), "line"))
			break
		}
		w.WriteString(line)
	}
	return w.String()
}

func (r *planReport) markdownConclusion() string {
	conclusion := r.conclusion(markdownCode)
	switch {
	case len(r.Thresholds) == 0:
		return "**" + conclusion + "**"
	case slices.ContainsFunc(r.Thresholds, func(t threshold) bool { return t.Exceeded }):
		return "**A threshold is exceeded.** " + conclusion
	}
	return "**All thresholds are kept.** " + conclusion
}

func (r *planReport) markdownRules(w io.Writer) {
	rows := [][]any{{"rule", "denied by OLD", "denied by NEW", "newly denied", "newly allowed", "change", "requests of one key, at most"}}
	var decisions []int64 // by row: the decisions of the rule that change
	omitted := int64(0)
	for i := range r.Rules {
		c := &r.Rules[i]
		if c.Change == unchanged && c.NewlyDenied == 0 && c.NewlyAllowed == 0 {
			omitted++
			continue
		}
		change := c.Change
		for _, d := range c.Differences {
			change += "<br>" + d.markdown()
		}
		if c.OtherAlgorithm {
			change += "<br>" + otherAlgorithmEffect
		}
		if c.Change == added || c.Change == removed {
			change += "<br>" + markdownCode(rules.Text(c.rule))
		}
		rows = append(rows, []any{
			markdownCode(c.Rule), c.Old.denied(), c.New.denied(), c.New.share(c.NewlyDenied), c.Old.share(c.NewlyAllowed),
			change, readable.List(c.Bounds, "<br>"),
		})
		decisions = append(decisions, c.NewlyDenied+c.NewlyAllowed)
	}
	printMarkdownTableWithin(w, rows, decisions, maxMarkdownRules, "rule")
	if omitted > 0 {
		fmt.Fprintf(w, "\nNot shown: %s without newly denied or newly allowed requests.\n", readable.Plural(omitted, "unchanged rule"))
	}
	for _, d := range r.Settings {
		fmt.Fprintf(w, "\nThe files differ in %s\n", d.markdown())
	}
}

func (d difference) markdown() string {
	return fmt.Sprintf("%s: %s -> %s", d.Field, markdownCode(d.Old), markdownCode(d.New))
}

func (r *planReport) markdownStrictest() string {
	var words []string
	for _, s := range r.Strictest {
		words = append(words, fmt.Sprintf("%s in any %s (%s)", s.mostText(), rules.IntervalText(s.length), markdownCode(s.Rule)))
	}
	if words == nil {
		return "No rule of NEW that is not in shadow mode applied to a request."
	}
	return "The strictest bounds of NEW, for the requests of one key of a rule: " + strings.Join(words, ", ") + "."
}

// printMarkdownTableWithin prints a table of at most this size, and how many rows are left out. Rows
// with the largest weights stay, or the first rows if weights is nil. The head has no weight.
func printMarkdownTableWithin(w io.Writer, rows [][]any, weights []int64, most int, what string) {
	byWeight := make([]int, len(rows)-1) // numbers of rows
	for i := range byWeight {
		byWeight[i] = i + 1
	}
	if weights != nil {
		slices.SortStableFunc(byWeight, func(a, b int) int { return cmp.Compare(weights[b-1], weights[a-1]) })
	}
	size, kept := len(markdownRow(rows[0])), 0
	for _, i := range byWeight {
		if size += len(markdownRow(rows[i])); size > most {
			break
		}
		kept++
	}
	shown := [][]any{rows[0]}
	for _, i := range slices.Sorted(slices.Values(byWeight[:kept])) {
		shown = append(shown, rows[i])
	}
	printMarkdownTable(w, shown)
	if left := len(byWeight) - kept; left > 0 {
		fmt.Fprintf(w, "\nNot shown, because the table would be too long: %s.\n", readable.Plural(int64(left), what))
	}
}

func markdownRow(row []any) string { return "| " + readable.List(row, " | ") + " |\n" }

// printMarkdownTable prints a table after an empty line, or nothing if there are no rows but the
// head. Columns of numbers are aligned right. The cells must be Markdown without line breaks and bars.
func printMarkdownTable(w io.Writer, rows [][]any) {
	if len(rows) == 1 {
		return
	}
	fmt.Fprintln(w)
	for i, row := range rows {
		fmt.Fprint(w, markdownRow(row))
		if i > 0 {
			continue
		}
		for column := range row {
			align := "| --- "
			if slices.ContainsFunc(rows, func(row []any) bool { return isNumber(row[column]) }) {
				align = "| ---: "
			}
			fmt.Fprint(w, align)
		}
		fmt.Fprintln(w, "|")
	}
}

// isNumber reports whether a cell is a number or a percentage.
func isNumber(cell any) bool {
	_, number := cell.(int64)
	text, _ := cell.(string)
	return number || strings.HasSuffix(text, "%")
}

// markdownCode returns Markdown that shows the text as code, whatever the text is. A page cannot
// be broken by it, and it makes no links and mentions nobody. A long text is cut.
func markdownCode(text string) string {
	text = readable.Cut(readable.Graphic(text), maxMarkdownText)
	switch {
	case strings.Trim(text, " ") == "":
		return "-"
	case !strings.ContainsAny(text, "`|\\<>&") && strings.Trim(text, " ") == text:
		return "`" + text + "`"
	}
	w := new(strings.Builder)
	for _, r := range text {
		if r < utf8.RuneSelf && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9') {
			fmt.Fprintf(w, "&#%d;", r)
		} else {
			w.WriteRune(r)
		}
	}
	return "<code>" + w.String() + "</code>"
}
