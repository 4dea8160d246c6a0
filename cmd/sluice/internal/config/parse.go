package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/sluice-go/sluice/cmd/sluice/internal/fieldlist"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/errtext"
)

// MaxSize is the size of the largest file that Parse accepts, in bytes.
const MaxSize = 128 << 10

// Parse parses the text of a file. The name is used in errors only. Every error is an
// [*Error].
func Parse(name string, text []byte) (*File, error) {
	r := reader{names: make(map[string]int)}
	if root := r.document(text); root != nil {
		f := r.file(root)
		if len(r.faults) == 0 {
			return f, nil
		}
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return nil, &Error{File: name, Faults: r.faults}
}

// Read reads and parses a file. Errors in its content are returned as an [*Error].
func Read(name string) (*File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadFrom(name, f)
}

// ReadFrom is Read for an open file.
func ReadFrom(name string, r io.Reader) (*File, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return Parse(name, text)
}

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

	needTrusted []func() // for each except.addresses, adds the fault of a file without trusted
}

const maxShown = 200 // the length of the longest text that an error shows

// fault adds an error of the value at the node. If the error is about a policy spec, it adds a caret.
func (r *reader) fault(n *yaml.Node, field string, err error) {
	f := Fault{Line: n.Line, Field: field, Problem: err.Error()}
	var bad *compose.SpecError
	if errors.As(err, &bad) {
		f.Problem = bad.Problem
		if len(bad.Spec) <= maxShown && IsPrintable(bad.Spec) {
			f.Caret = bad.Caret()
		}
	}
	r.faults = append(r.faults, f)
}

func (r *reader) faultf(n *yaml.Node, field, format string, args ...any) {
	r.fault(n, field, fmt.Errorf(format, args...))
}

// IsPrintable reports whether s has only printable characters.
func IsPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// member is a key of a mapping and the function that reads its value. at is the path of the
// value, for errors.
type member struct {
	name string
	read func(n *yaml.Node, at string)
	want string // empty: a mapping may lack the member
}

func (m member) required(want string) member {
	m.want = want
	return m
}

// converted returns the function that gives set what read makes of a value, or adds the error.
func converted[T any](r *reader, read func(*yaml.Node) (T, error), set func(T)) func(n *yaml.Node, at string) {
	return func(n *yaml.Node, at string) {
		if v, err := read(n); err != nil {
			r.fault(n, at, err)
		} else {
			set(v)
		}
	}
}

// value returns the member that read converts. An error leaves to unchanged.
func value[T any](r *reader, name string, to *T, read func(*yaml.Node) (T, error)) member {
	return member{name: name, read: converted(r, read, func(v T) { *to = v })}
}

// list returns the member with a list, or with a single value without a list. read converts each
// value. Without want, the list may be empty.
func list[T any](r *reader, name string, to *[]T, want string, read func(*yaml.Node) (T, error)) member {
	one := converted(r, read, func(v T) { *to = append(*to, v) })
	return member{name: name, read: func(n *yaml.Node, at string) {
		switch {
		case !is(n, "!!seq"):
			one(n, at)
			return
		case len(n.Content) == 0 && want == "":
			*to = []T{}
		case len(n.Content) == 0:
			r.faultf(n, at, "is an empty list; leave it out, or write %s", want)
		}
		for i, n := range n.Content {
			one(n, fmt.Sprintf("%s[%d]", at, i))
		}
	}}
}

// members reads a mapping. It returns the key nodes by their names; nil if n is not a
// mapping.
func (r *reader) members(n *yaml.Node, at string, known ...member) map[string]*yaml.Node {
	var names []string
	for _, m := range known {
		names = append(names, m.name)
	}
	last := len(names) - 1
	want := strings.Join(names[:last], ", ") + " or " + names[last]
	if !is(n, "!!map") {
		r.faultf(n, at, "%s; want a mapping with the fields %s", describe(n), want)
		return nil
	}
	place := func(name string) string { return strings.TrimPrefix(at+"."+name, ".") }
	given := make(map[string]*yaml.Node)
	for pair := range slices.Chunk(n.Content, 2) {
		key := pair[0]
		name, ok := text(key)
		switch i := slices.Index(names, name); {
		case ok && given[name] != nil:
			r.faultf(key, place(name), "is there twice, first in line %d; write it once", given[name].Line)
		case !ok || i < 0:
			r.fault(key, at, fieldlist.Unknown(key.Value, names, want))
		default:
			given[name] = key
			known[i].read(pair[1], place(name))
		}
	}
	for _, m := range known {
		if m.want != "" && given[m.name] == nil {
			r.faultf(n, place(m.name), "missing; want %s", m.want)
		}
	}
	return given
}

// is reports whether a node has the type of the tag. Aliases, and nodes with an anchor or an explicit
// tag, have no type: they are not supported.
func is(n *yaml.Node, tag string) bool {
	return n.Tag == tag && n.Anchor == "" && n.Style&yaml.TaggedStyle == 0
}

// isNothing reports whether the file has nothing where the node is.
func isNothing(n *yaml.Node) bool { return n.Tag == "!!null" && n.Value == "" }

// text returns the value of a node that is text.
func text(n *yaml.Node) (string, bool) {
	switch {
	case !is(n, "!!str"):
		return "", false
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return strings.TrimSpace(n.Value), true
	}
	return n.Value, true
}

// describe says what a node with a wrong type or value is, for an error.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return "anchors and aliases are not supported"
	case n.Style&yaml.TaggedStyle != 0 || n.Tag == "!":
		return "tags are not supported"
	case n.Kind == yaml.MappingNode:
		return "is a mapping"
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return "is an empty list"
	case n.Kind == yaml.SequenceNode:
		return "is a list"
	case n.Tag == "!!null":
		return "is empty"
	case n.Tag == "!!str":
		return "is " + errtext.Quote(n.Value)
	}
	return "is " + oneLine(n.Value) // a number, a boolean or a date
}

// word returns text that is not blank.
func word(n *yaml.Node, want string) (string, error) {
	s, _ := text(n)
	if strings.TrimSpace(s) == "" {
		return "", fmt.Errorf("%s; want %s", describe(n), want)
	}
	return s, nil
}

// parsed returns the function that parses text that is not blank.
func parsed[T any](want string, parse func(string) (T, error)) func(*yaml.Node) (T, error) {
	return func(n *yaml.Node) (v T, err error) {
		s, err := word(n, want)
		if err != nil {
			return v, err
		}
		return parse(s)
	}
}

func boolean(n *yaml.Node) (bool, error) {
	b, err := strconv.ParseBool(n.Value)
	if err != nil || !is(n, "!!bool") {
		return false, fmt.Errorf("%s; want true or false", describe(n))
	}
	return b, nil
}

// integer reads a decimal number. It refuses 010, which is 8 in YAML 1.1.
func integer(n *yaml.Node) (v int64, ok bool) {
	digits := strings.TrimPrefix(strings.ReplaceAll(n.Value, "_", ""), "+")
	v, err := strconv.ParseInt(digits, 10, 64)
	return v, err == nil && is(n, "!!int") && strconv.FormatInt(v, 10) == digits
}
