// Package report prints tables and JSON.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"text/tabwriter"
	"unicode/utf8"
)

// Report is the result of replay or suggest in all forms of output.
type Report struct {
	Tables string
	JSON   any
	Chart  interface{ Draw(path string) error }
}

// Print writes the report, and the chart into the file of --out.
func (f *Output) Print(w io.Writer, r Report) (err error) {
	if f.JSON {
		err = JSON(w, r.JSON)
	} else {
		_, err = io.WriteString(w, r.Tables)
	}
	if f.Out == "" {
		return err
	}
	return cmp.Or(err, r.Chart.Draw(f.Out)) // if one output fails, the other may succeed
}

// Table prints a table after an empty line, or nothing if there are no rows but the head. The
// first column is aligned left, the others right.
func Table(w io.Writer, rows [][]any) {
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

// Legend prints names with their explanations.
func Legend(w io.Writer, entries [][2]string) {
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		fmt.Fprintf(tabs, "  %s\t%s\n", e[0], e[1])
	}
	_ = tabs.Flush()
}

func JSON(w io.Writer, report any) error {
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
