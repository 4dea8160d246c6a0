package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
)

// subject is the policies or the rules of a replay.
type subject interface {
	// fields returns the fields of an entry that it reads, and those that keys and rules name.
	fields() (read, named accesslog.Fields)
	add(ctx context.Context, e *accesslog.Entry) error
	report(top int, log *logSummary) report
}

// report is the result of replay or suggest in all forms of output.
type report struct {
	tables string
	json   any
	chart  interface{ draw(path string) error }
}

// print writes the report, and the chart into the file of --out.
func (f *reportFlags) print(w io.Writer, r report) (err error) {
	if f.json {
		err = printJSON(w, r.json)
	} else {
		_, err = io.WriteString(w, r.tables)
	}
	if f.out == "" {
		return err
	}
	return cmp.Or(err, r.chart.draw(f.out)) // if one output fails, the other may succeed
}

// printTable prints a table after an empty line, or nothing if there are no rows but the head. The
// first column is aligned left, the others right.
func printTable(w io.Writer, rows [][]any) {
	if len(rows) == 1 {
		return
	}
	first := 0
	for _, row := range rows {
		first = max(first, utf8.RuneCountInString(fmt.Sprint(row[0])))
	}
	fmt.Fprintln(w)
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		fmt.Fprintf(tabs, "%-*v\t", first, row[0])
		for _, cell := range row[1:] {
			fmt.Fprintf(tabs, "%v\t", cell)
		}
		fmt.Fprintln(tabs)
	}
	_ = tabs.Flush() // as with Fprintf above, the output keeps its first error
}

// printLegend prints names with their explanations.
func printLegend(w io.Writer, entries [][2]string) {
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		fmt.Fprintf(tabs, "  %s\t%s\n", e[0], e[1])
	}
	_ = tabs.Flush()
}

// boundCells returns the cells of a policy or rule from the column keys on.
func boundCells(o *replay.Outcome, keys int64) []any {
	return []any{keys, o.KeysDenied, o.Admitted, limitOf(o.Policy.Policy), o.Bound, formatWait(o.LongestWait, o.Never)}
}

// limitOf returns the limit whose period the counts are for.
func limitOf(p algo.Policy) string {
	all := limits(p)
	if len(all) > 1 {
		return fmt.Sprintf("%v (part 1 of %d)", all[0], len(all))
	}
	return all[0].String()
}

// plural returns a number with a noun.
func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// share returns a percentage, or - if whole is 0.
func share(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(part)/float64(whole))
}

// formatWait formats the longest wait.
func formatWait(longest time.Duration, never int64) string {
	s := readable.Rounded(longest)
	if never > 0 {
		s += fmt.Sprintf(", %d never", never)
	}
	return s
}

// shorten cuts a long key.
func shorten(key string) string { return cut(key, 60) }

// baseName returns the last element of a path, escaped and shortened. An SVG with control characters
// is not valid.
func baseName(path string) string { return shorten(graphic(filepath.Base(path))) }

// cut returns at most this many characters of a text.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// jsonReport is the output of --json for policies. The help documents it.
type jsonReport struct {
	jsonLog
	Disagreements int64        `json:"disagreements"`
	Policies      []jsonPolicy `json:"policies"`
	jsonProblems
}

// jsonRulesReport is the output of --json with --config. The help documents it.
type jsonRulesReport struct {
	jsonLog
	Proxied  int64        `json:"proxied"`
	Together jsonTogether `json:"together"`
	Rules    []jsonRule   `json:"rules"`
	jsonProblems
}

type jsonLog struct {
	Lines     int64 `json:"lines"`
	Skipped   int64 `json:"skipped"`
	Reordered int64 `json:"reordered"`
	Late      int64 `json:"late"`
	NoAddress int64 `json:"no_address"`
}

type jsonProblems struct {
	Damaged []jsonDamage     `json:"damaged"`
	Missing map[string]int64 `json:"missing"` // by the field's name
}

type jsonDamage struct {
	File    string `json:"file"`
	Problem string `json:"problem"`
}

type jsonTogether struct {
	Requests    int64  `json:"requests"`
	Allowed     int64  `json:"allowed"`
	Denied      int64  `json:"denied"`
	LongestWait string `json:"longest_wait"`
	Never       int64  `json:"never"`
}

type jsonRule struct {
	Rule   string   `json:"rule"`
	By     []string `json:"by"`
	Cost   int64    `json:"cost"`
	Shadow bool     `json:"shadow"`
	Alone  int64    `json:"alone"`
	jsonPolicy
}

type jsonPolicy struct {
	Policy      string           `json:"policy"`
	Requests    int64            `json:"requests"`
	Allowed     int64            `json:"allowed"`
	Denied      int64            `json:"denied"`
	Keys        int64            `json:"keys"`
	KeysDenied  int64            `json:"keys_denied"`
	Worst       jsonWorst        `json:"worst"`
	LongestWait string           `json:"longest_wait"`
	Never       int64            `json:"never"`
	TopDenied   []replay.Denials `json:"top_denied"`
}

type jsonWorst struct {
	Interval string `json:"interval"`
	Admitted int64  `json:"admitted"`
	Bound    int64  `json:"bound"`
	Part     string `json:"part,omitempty"` // of all(...), the part whose period is interval
}

func printJSON(w io.Writer, report any) error {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(report); err != nil {
		return err
	}
	_, err := io.WriteString(w, controls.ReplaceAllStringFunc(text.String(), func(c string) string {
		return fmt.Sprintf(`\u%04x`, []rune(c)[0])
	}))
	return err
}

// controls has the control characters that encoding/json leaves unescaped, although terminals
// interpret some of them.
var controls = regexp.MustCompile("[\u007f-\u009f]")

func (l *logSummary) json() (jsonLog, jsonProblems) {
	p := jsonProblems{Damaged: []jsonDamage{}, Missing: make(map[string]int64)}
	for _, f := range l.Damaged {
		p.Damaged = append(p.Damaged, jsonDamage{f.Name, f.Err.Error()})
	}
	for f, n := range l.missing {
		p.Missing[f.String()] = n
	}
	return jsonLog{l.Lines, l.Skipped, l.Reordered, l.Late, l.noAddress()}, p
}

func jsonOf(o *replay.Outcome, requests, keys int64) jsonPolicy {
	j := jsonPolicy{
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
	if parts := replay.Parts(o.Policy.Policy); len(parts) > 1 {
		j.Worst.Part = parts[0].String()
	}
	return j
}
