// Package report prints reports, which are templates with tables, and JSON.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"text/tabwriter"
	"text/template"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
)

// Template returns a template of reports. Its function row writes a line of a table, and entry a line of a
// legend. functions are more functions.
func Template(text string, functions template.FuncMap) *template.Template {
	return template.Must(template.New("report").Funcs(template.FuncMap{
		"row":     Row,
		"entry":   Entry,
		"list":    list,
		"plural":  func(n any, thing string) string { return readable.Plural(reflect.ValueOf(n).Int(), thing) },
		"share":   readable.Share,
		"are":     readable.Are,
		"wait":    readable.Wait,
		"shorten": readable.Shorten,
	}).Funcs(functions).Parse(text))
}

// Text runs a template, and aligns its tables and legends.
func Text(t *template.Template, name string, data any) string { return Render(t, name, data, align) }

// Render runs a template, and replaces tables and legends: lines with tabs, with the line break before them.
func Render(t *template.Template, name string, data any, replace func(lines string) string) string {
	var text strings.Builder
	if err := t.ExecuteTemplate(&text, name, data); err != nil {
		panic(err) // a name that the data does not have
	}
	return tables.ReplaceAllStringFunc(text.String(), replace)
}

// Entry returns a line of a legend.
func Entry(name, text string) string { return "  " + name + "\t" + text }

// Row returns the cells with tabs between them. A slice is as many cells as it has elements.
func Row(cells ...any) string { return list("\t", cells...) }

func list(between string, values ...any) string {
	var texts []string
	for _, value := range values {
		if v := reflect.ValueOf(value); v.Kind() == reflect.Slice {
			for i := range v.Len() {
				texts = append(texts, fmt.Sprint(v.Index(i)))
			}
			continue
		}
		texts = append(texts, fmt.Sprint(value))
	}
	return strings.Join(texts, between)
}

var tables = regexp.MustCompile(`\n?(?:[^\n]*\t[^\n]*\n)+`)

// align aligns a legend or a table. The first column of a table is aligned left, the others right. A table without rows
// but the head is left out.
func align(block string) string {
	lines := strings.TrimLeft(block, "\n")
	out := new(strings.Builder)
	out.WriteString(block[:len(block)-len(lines)])
	if strings.HasPrefix(lines, "  ") {
		tabs := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprint(tabs, lines)
		_ = tabs.Flush() // a strings.Builder takes all
		return out.String()
	}
	if strings.Count(lines, "\n") == 1 {
		return ""
	}
	first := 0
	for line := range strings.Lines(lines) {
		name, _, _ := strings.Cut(line, "\t")
		first = max(first, utf8.RuneCountInString(name))
	}
	tabs := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for line := range strings.Lines(lines) {
		name, rest, _ := strings.Cut(line, "\t")
		fmt.Fprintf(tabs, "%-*s\t%s\t\n", first, name, strings.TrimSuffix(rest, "\n"))
	}
	_ = tabs.Flush()
	return out.String()
}

// Columns returns the names of columns: the specs, or numbers if specs would make the tables too wide. It also returns
// the legend of the numbers.
func Columns(specs []string) (names []string, legend string) {
	const widest = 100
	if len(strings.Join(specs, "")) <= widest {
		return specs, ""
	}
	for i, spec := range specs {
		names = append(names, fmt.Sprintf("#%d", i+1))
		legend += Entry(names[i], spec) + "\n"
	}
	return names, "\n" + legend
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

// Output has the flags that choose policies and the form of a report.
type Output struct {
	Specs       []string // of --policy
	Config, Out string
	JSON        bool
	Top         int
}

// Validate checks the flags as far as this is possible without the input.
func (r *Output) Validate(flags *pflag.FlagSet) error {
	ext := strings.ToLower(filepath.Ext(r.Out))
	switch {
	case r.Out != "" && ext != ".svg" && ext != ".png":
		return cli.Usagef("--out %q: want a name that ends in .svg or .png", r.Out)
	case r.Config != "" && len(r.Specs) > 0:
		return cli.Usagef("-p and --config exclude each other; leave one out, or write the policy into a rule of %s", r.Config)
	case r.Config != "" && flags.Changed("by"):
		return cli.Usagef("--by and --config exclude each other; leave --by out, or set by in the rules of %s", r.Config)
	}
	return nil
}

// Report is the result of a command in all forms of output.
type Report struct {
	Tables string
	JSON   any
	Chart  interface{ Draw(path string) error }
}

// Print writes the report, and the chart into the file of --out.
func (r *Output) Print(w io.Writer, report Report) (err error) {
	if r.JSON {
		err = JSON(w, report.JSON)
	} else {
		_, err = io.WriteString(w, report.Tables)
	}
	if r.Out == "" {
		return err
	}
	return cmp.Or(err, report.Chart.Draw(r.Out)) // if one output fails, the other may succeed
}
