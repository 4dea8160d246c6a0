package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/sluice-go/sluice/compose"
)

// Error has all errors of a file.
type Error struct {
	File   string
	Faults []Fault // at least one, in the order of lines
}

// Fault is one error of a file, with the accepted values.
type Fault struct {
	Line    int    // from 1
	Field   string // such as rules[1].policy; empty if it is the file as a whole
	Problem string // one line
	Caret   string // two lines, the text and a caret below the wrong word; or empty
}

// Error returns a line for each of the first 20 faults, with its caret.
func (e *Error) Error() string {
	const most = 20
	var lines []string
	for i, f := range e.Faults {
		if i == most {
			lines = append(lines, fmt.Sprintf("%s: %d more errors", e.File, len(e.Faults)-most))
			break
		}
		where := fmt.Sprintf("%s:%d: ", e.File, f.Line)
		if f.Field != "" {
			where += f.Field + ": "
		}
		lines = append(lines, where+f.Problem)
		if f.Caret != "" {
			lines = append(lines, "  "+strings.ReplaceAll(f.Caret, "\n", "\n  "))
		}
	}
	return strings.Join(lines, "\n")
}

// reader converts YAML nodes to a File and collects the errors.
type reader struct {
	faults []Fault
	names  map[string]int // the line of each rule's name
}

// fault adds an error of the value at the node. If the error is about a policy spec, it adds a caret.
func (r *reader) fault(n ast.Node, field string, err error) {
	f := Fault{Line: lineOf(n), Field: field, Problem: err.Error()}
	var bad *compose.SpecError
	if errors.As(err, &bad) {
		f.Problem = bad.Problem
		if len(bad.Spec) <= 200 && isPrintable(bad.Spec) {
			f.Caret = bad.Caret()
		}
	}
	r.faults = append(r.faults, f)
}

func (r *reader) faultf(n ast.Node, field, format string, args ...any) {
	r.fault(n, field, fmt.Errorf(format, args...))
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	return n.GetToken().Position.Line
}
