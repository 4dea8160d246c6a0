package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/compose"
)

func printTables(w io.Writer, r report) error {
	out := &strings.Builder{}
	r.tables(out)
	_, err := io.WriteString(w, out.String())
	return err
}

func (r *result) tables(out io.Writer) {
	r.head(out, fmt.Sprintf("%s by %s", plural(r.Keys, "key"), r.by))
	r.printMissing(out, missingInKey)
	names := policyNames(out, r)
	printPolicies(out, r, names)
	printTopDenied(out, r, names)
	printDisagreements(out, r, names)
}

// missingInKey describes what a key has in place of a missing field.
func missingInKey(f accesslog.Fields) string {
	if f&(accesslog.User|accesslog.Key) != 0 {
		return "their key has ip:ADDRESS instead, or - if they have no address"
	}
	return "their key has - instead"
}

const stamp = "2006-01-02 15:04:05"

// head describes the log. limited ends the first line.
func (r *logSummary) head(w io.Writer, limited string) {
	fmt.Fprintf(w, "%s: %s, %s, %s\n", r.name, plural(r.Entries, "request"), r.span(), limited)
	if r.Reordered > 0 {
		fmt.Fprintf(w, "%s out of order, sorted\n", plural(r.Reordered, "line"))
	}
	if r.Late > 0 {
		fmt.Fprintf(w, "%s out of order by more than --reorder, replayed at the latest time read so far\n", plural(r.Late, "line"))
	}
	if r.Skipped > 0 {
		fmt.Fprintf(w, "%d of %s skipped because they are not log lines; the first is %v\n", r.Skipped, plural(r.Lines, "line"), r.FirstSkipped)
	}
	for _, f := range r.Damaged {
		fmt.Fprintf(w, "%s ends early: %v\n", f.Name, f.Err)
	}
}

// span returns the times of the first and the last request.
func (r *logSummary) span() string {
	return fmt.Sprintf("%s to %s UTC", r.start.UTC().Format(stamp), r.end.UTC().Format(stamp))
}

// policyNames returns the names of the policies in tables: their specs, or numbers if specs
// would make the tables too wide. It prints the legend of the numbers.
func policyNames(w io.Writer, r *result) []any {
	const widest = 100
	var specs, numbers []any
	width := 0
	for i, p := range r.Policies {
		specs, numbers = append(specs, p.Policy.String()), append(numbers, fmt.Sprintf("#%d", i+1))
		width += len(p.Policy.String())
	}
	if width <= widest {
		return specs
	}
	fmt.Fprintln(w)
	for i, spec := range specs {
		fmt.Fprintf(w, "  %-*s  %s\n", len(fmt.Sprint(numbers[len(numbers)-1])), numbers[i], spec)
	}
	return numbers
}

// plural returns a number with a noun.
func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func printPolicies(w io.Writer, r *result, names []any) {
	t := newTable(w, "policy", "requests", "allowed", "denied", "share denied", "keys", "keys denied",
		"most in a period", "limit", "bound", "longest wait")
	for i, p := range r.Policies {
		t.row(names[i], r.Requests, p.Allowed, p.Denied, share(p.Denied, r.Requests), r.Keys, p.KeysDenied,
			p.Admitted, limitOf(p.Policy), p.Bound, formatWait(p.LongestWait, p.Never))
	}
	t.print()
}

// limitOf returns the limit whose period the counts are for.
func limitOf(p algo.Policy) string {
	if stack, ok := p.(*compose.Stack); ok && stack.Len() > 1 {
		return fmt.Sprintf("%v (part 1 of %d)", stack.Limit(), stack.Len())
	}
	return p.Limit().String()
}

func printTopDenied(w io.Writer, r *result, names []any) {
	if len(r.TopDenied) == 0 {
		return
	}
	t := newTable(w, append([]any{"denied most, by " + r.by}, names...)...)
	for _, k := range r.TopDenied {
		cells := []any{shorten(k.Key)}
		for _, n := range k.Denied {
			cells = append(cells, n)
		}
		t.row(cells...)
	}
	t.print()
}

func printDisagreements(w io.Writer, r *result, names []any) {
	if len(r.Policies) < 2 {
		return
	}
	fmt.Fprintf(w, "\nthe policies disagree on %d of %s", r.Disagreements, plural(r.Requests, "request"))
	if r.Disagreements == 0 {
		fmt.Fprintln(w)
		return
	}
	fmt.Fprint(w, ", for instance:\n")
	t := newTable(w, append([]any{"time", r.by}, names...)...)
	for _, e := range r.Examples {
		cells := []any{e.Time.Format(stamp), shorten(e.Key)}
		for _, ok := range e.Allowed {
			cells = append(cells, verdict(ok))
		}
		t.row(cells...)
	}
	t.print()
}

func verdict(allowed bool) string {
	if allowed {
		return "ok"
	}
	return "deny"
}

// share returns a percentage, or - if whole is 0.
func share(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(part)/float64(whole))
}

// formatWait formats the longest wait, rounded to milliseconds.
func formatWait(longest time.Duration, never int64) string {
	if longest > time.Second {
		longest = longest.Round(time.Millisecond)
	}
	s := algo.FormatDuration(longest)
	if never > 0 {
		s += fmt.Sprintf(", %d never", never)
	}
	return s
}

// shorten cuts a long key.
func shorten(key string) string {
	const most = 60
	if utf8.RuneCountInString(key) <= most {
		return key
	}
	runes := []rune(key)
	return string(runes[:most-1]) + "…"
}

// table prints rows. The first column is aligned left, the others right.
type table struct {
	w    io.Writer
	rows [][]string
}

func newTable(w io.Writer, heads ...any) *table {
	t := &table{w: w}
	t.row(heads...)
	return t
}

func (t *table) row(cells ...any) {
	var row []string
	for _, c := range cells {
		row = append(row, fmt.Sprint(c))
	}
	t.rows = append(t.rows, row)
}

func (t *table) print() {
	first := 0
	for _, row := range t.rows {
		first = max(first, utf8.RuneCountInString(row[0]))
	}
	fmt.Fprintln(t.w)
	tabs := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range t.rows {
		fmt.Fprintf(tabs, "%s%s", row[0], strings.Repeat(" ", first-utf8.RuneCountInString(row[0])))
		fmt.Fprintf(tabs, "\t%s\t\n", strings.Join(row[1:], "\t"))
	}
	_ = tabs.Flush() // as with Fprintf above, the output keeps its first error
}
