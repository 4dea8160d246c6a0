package plan

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
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

// ChangedRules returns the table of the rules that the Markdown shows, those with the most changed decisions first.
func (r *planReport) ChangedRules() string {
	rows := []string{report.Row("rule", "denied by OLD", "denied by NEW", "newly denied", "newly allowed", "change", "one key, at most")}
	changed := func(c *ruleChange) int64 { return c.NewlyDenied + c.NewlyAllowed }
	byEffect := slices.Clone(r.Rules)
	slices.SortStableFunc(byEffect, func(a, b ruleChange) int { return cmp.Compare(changed(&b), changed(&a)) })
	for i := range byEffect {
		c := &byEffect[i]
		if c.isQuiet() {
			continue
		}
		changes := []string{c.Change}
		for _, d := range c.Differences {
			changes = append(changes, fmt.Sprintf("%s: %s -> %s", d.Field, markdownCode(d.Old), markdownCode(d.New)))
		}
		if c.OtherAlgorithm {
			changes = append(changes, otherAlgorithmEffect)
		}
		if c.Change == added || c.Change == removed {
			changes = append(changes, markdownCode(rules.Text(c.rule)))
		}
		rows = append(rows, report.Row(markdownCode(c.Rule), c.Old.DeniedCell(), c.New.DeniedCell(), c.New.Cell(c.NewlyDenied), c.Old.Cell(c.NewlyAllowed),
			strings.Join(changes, "<br>"), readable.List(c.Bounds, "<br>")))
	}
	return markdownTable(rows, maxMarkdownRules, "rule")
}

// UnchangedRules returns the number of rules that ChangedRules leaves out.
func (r *planReport) UnchangedRules() (n int64) {
	for i := range r.Rules {
		if r.Rules[i].isQuiet() {
			n++
		}
	}
	return n
}

// isQuiet reports whether the rule is unchanged and has no part in a change.
func (c *ruleChange) isQuiet() bool {
	return c.Change == unchanged && c.NewlyDenied == 0 && c.NewlyAllowed == 0
}

// markdownTables returns the tables of lines with tabs. Only those of clients can be long.
func markdownTables(lines string) string {
	rows := strings.Split(strings.Trim(lines, "\n"), "\n")
	most := math.MaxInt
	if strings.HasPrefix(rows[0], "most newly") {
		most = maxMarkdownClients
	}
	return markdownTable(rows, most, "client")
}

// markdownTable returns a table of at most this size after an empty line, and how many of the last rows are left out. Without
// rows but the head, there is no table. The cells must be Markdown without line breaks and bars.
func markdownTable(rows []string, most int, what string) string {
	if len(rows) == 1 {
		return ""
	}
	table := "\n" + markdownRow(rows[0]) + alignment(rows)
	for i, row := range rows[1:] {
		line := markdownRow(row)
		if len(table)+len(line) > most {
			return table + fmt.Sprintf("\nNot shown, because the table would be too long: %s.\n", readable.Plural(int64(len(rows)-1-i), what))
		}
		table += line
	}
	return table
}

func markdownRow(row string) string { return "| " + strings.ReplaceAll(row, "\t", " | ") + " |\n" }

var number = regexp.MustCompile(`^\d+$|%$`)

// alignment returns the second row of a table: columns of numbers or percentages are aligned right.
func alignment(rows []string) string {
	aligns := slices.Repeat([]string{"---"}, strings.Count(rows[0], "\t")+1)
	for _, row := range rows {
		for column, cell := range strings.Split(row, "\t") {
			if number.MatchString(cell) {
				aligns[column] = "---:"
			}
		}
	}
	return markdownRow(strings.Join(aligns, "\t"))
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
