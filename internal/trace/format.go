package trace

import (
	"bufio"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Format writes the trace. The text left of the arrows is unchanged, arrows and answers are
// aligned, and headings get the names of the columns.
func (t *Trace) Format(w io.Writer) error {
	out := bufio.NewWriter(w)
	form := layoutOf(t)
	for _, l := range t.lines {
		out.WriteString(t.format(&l, &form) + "\n")
	}
	return out.Flush()
}

// format returns the text of a line.
func (t *Trace) format(l *line, form *layout) string {
	s := l.text
	if left, arrow, answers := t.split(l); left != "" {
		switch {
		case l.event == nil:
			s = pad(left, form.arrow) + "   " + form.row(answers)
		case arrow >= 0 || answers != nil:
			s = pad(left, form.arrow) + "-> " + form.row(answers)
		}
		s = strings.TrimRight(s, " ")
	}
	if l.event != nil && l.event.comment != "" {
		s += "  " + l.event.comment
	}
	return s
}

var headings = regexp.MustCompile(`^\s*#at\s+key\s+cost(\s|$)`)

// split returns the text left of the arrow, the position of the arrow, and the answers. Those
// of a heading are the names of the columns. left is empty if the line is neither an event nor a
// heading.
func (t *Trace) split(l *line) (left string, arrow int, answers [][]string) {
	if l.event != nil {
		return l.text, l.event.arrow, l.event.answers
	}
	names := strings.Fields(columnNames(t.shown))
	return strings.TrimSpace(headings.FindString(l.text)), -1, slices.Repeat([][]string{names}, t.policies)
}

// A layout has the positions of the arrow and the columns, in characters.
type layout struct {
	arrow  int
	widths [][]int // by policy, then by column
}

// layoutOf returns a layout that is wide enough for all traces.
func layoutOf(traces ...*Trace) (form layout) {
	for _, t := range traces {
		for _, l := range t.lines {
			if left, arrow, answers := t.split(&l); left != "" {
				form.arrow = max(form.arrow, utf8.RuneCountInString(left)+1, arrow)
				form.fit(answers)
			}
		}
	}
	return form
}

// fit makes the columns wide enough for the answers.
func (f *layout) fit(answers [][]string) {
	for i, answer := range answers {
		if i == len(f.widths) {
			f.widths = append(f.widths, make([]int, len(answer)))
		}
		for j, word := range answer {
			f.widths[i][j] = max(f.widths[i][j], len(word))
		}
	}
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
