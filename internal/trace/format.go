package trace

import (
	"bufio"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Format writes the trace. The text left of the arrows is unchanged, arrows and answers are
// aligned, and headings get the names of the columns.
func (t *Trace) Format(w io.Writer) error {
	out := bufio.NewWriter(w)
	form := t.layout()
	for _, l := range t.lines {
		s := l.text
		if l.event != nil {
			s = strings.TrimRight(form.event(&l), " ")
		} else if left := heading(s); left != "" {
			s = strings.TrimRight(form.heading(left), " ")
		}
		out.WriteString(s + "\n")
	}
	return out.Flush()
}

var headings = regexp.MustCompile(`^\s*#at\s+key\s+cost(\s|$)`)

// heading returns the left part of a heading; empty if the line is not a heading.
func heading(s string) string { return strings.TrimSpace(headings.FindString(s)) }

// A layout has the positions of the arrow and the columns, in characters.
type layout struct {
	names  []string // of the columns
	arrow  int
	widths [][]int // by policy, then by column
}

func (t *Trace) layout() layout {
	f := layout{names: strings.Fields(columnNames(t.shown)), widths: make([][]int, t.policies)}
	for i := range f.widths {
		f.widths[i] = make([]int, len(t.shown))
	}
	for _, l := range t.lines {
		switch {
		case l.event != nil:
			f.arrow = max(f.arrow, utf8.RuneCountInString(l.text)+1, l.event.arrow)
			f.fit(l.event.answers)
		case heading(l.text) != "":
			f.arrow = max(f.arrow, utf8.RuneCountInString(heading(l.text))+1)
			f.fit(f.headings())
		}
	}
	return f
}

// fit makes the columns wide enough for the answers.
func (f *layout) fit(answers [][]string) {
	for i, answer := range answers {
		for j, word := range answer {
			f.widths[i][j] = max(f.widths[i][j], len(word))
		}
	}
}

// headings returns the names of the columns for each policy.
func (f *layout) headings() [][]string {
	all := make([][]string, len(f.widths))
	for i := range all {
		all[i] = f.names
	}
	return all
}

func (f *layout) heading(left string) string {
	return pad(left, f.arrow) + "   " + f.row(f.headings())
}

func (f *layout) event(l *line) string {
	e := l.event
	s := l.text
	if e.answers != nil {
		s = pad(s, f.arrow) + "-> " + f.row(e.answers)
	} else if e.arrow >= 0 {
		s = pad(s, f.arrow) + "->"
	}
	if e.comment != "" {
		s += "  " + e.comment
	}
	return s
}

func (f *layout) row(answers [][]string) string {
	cells := make([]string, len(answers))
	for i, answer := range answers {
		words := make([]string, len(answer))
		for j, word := range answer {
			words[j] = pad(word, f.widths[i][j])
		}
		cells[i] = strings.Join(words, " ")
	}
	return strings.Join(cells, " | ")
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}
