package trace

import (
	"fmt"
	"strings"
)

// diffContext is how many equal lines a diff shows before and after a difference.
const diffContext = 3

// Difference is the result of [Trace.Diff]. The zero Difference means that all decisions are as the trace has them.
type Difference struct {
	Events int    // how many events differ
	Line   int    // the line of the first one, from 1
	Text   string // a unified diff; it marks the lines of the trace with -, and the lines with the actual decisions with +
}

// Diff runs the trace and compares the decisions with its answers. A line that differs is directly above the
// line with the actual decisions. All lines are formatted alike, so only the decisions differ.
func (t *Trace) Diff() (d Difference, err error) {
	if t.invalid != nil {
		return d, t.invalid
	}
	ran, err := t.Run()
	if err != nil {
		return d, err
	}
	form := layoutOf(t, ran)
	var text strings.Builder
	for _, h := range t.hunks(ran) {
		fmt.Fprintf(&text, "@@ -%d,%d +%[1]d,%[2]d @@\n", h.first+1, h.end-h.first)
		for i := h.first; i < h.end; i++ {
			want, got := &t.lines[i], &ran.lines[i]
			if !differs(want, got) {
				text.WriteString(strings.TrimRight(" "+t.format(want, &form), " ") + "\n")
				continue
			}
			text.WriteString("-" + t.format(want, &form) + "\n+" + ran.format(got, &form) + "\n")
			if d.Events++; d.Events == 1 {
				d.Line = got.number
			}
		}
	}
	if d.Events > 0 {
		d.Text = fmt.Sprintf("--- %s (want)\n+++ %[1]s (got)\n", t.name) + text.String()
	}
	return d, nil
}

// A hunk is the lines from first to before end, as indexes.
type hunk struct{ first, end int }

// hunks returns the lines that differ and those around them.
func (t *Trace) hunks(ran *Trace) (hunks []hunk) {
	for i := range t.lines {
		if !differs(&t.lines[i], &ran.lines[i]) {
			continue
		}
		h := hunk{max(0, i-diffContext), min(len(t.lines), i+diffContext+1)}
		if n := len(hunks); n > 0 && h.first <= hunks[n-1].end {
			hunks[n-1].end = h.end
			continue
		}
		hunks = append(hunks, h)
	}
	return hunks
}
