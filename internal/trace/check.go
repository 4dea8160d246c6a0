package trace

import (
	"fmt"
	"slices"
	"strings"
)

// Difference is an event whose decisions differ from the answers in its line.
type Difference struct {
	File  string // the name given to Parse
	Line  int    // from 1
	Event string // the text left of the arrow
	Got   string // the decisions
	Want  string // the text right of the arrow; empty if there is none
}

// String returns three lines: the event, the decisions and the wanted answers.
func (d Difference) String() string {
	want := d.Want
	if want == "" {
		want = "(nothing right of ->)"
	}
	return fmt.Sprintf("%s:%d: %s\n\tgot  %s\n\twant %s", d.File, d.Line, d.Event, d.Got, want)
}

// Check runs the trace and returns every event whose decisions differ from its line. An event
// without answers differs too, because it would test nothing.
func (t *Trace) Check() ([]Difference, error) {
	ran, err := t.Run()
	if err != nil {
		return nil, err
	}
	var different []Difference
	for i, l := range t.lines {
		if l.event == nil || slices.EqualFunc(l.event.answers, ran.lines[i].event.answers, slices.Equal) {
			continue
		}
		got, want := beside(ran.lines[i].event.answers, l.event.answers)
		event := strings.Join(strings.Fields(l.text), " ")
		different = append(different, Difference{t.name, l.number, event, got, want})
	}
	return different, nil
}

// beside formats two answers with aligned words.
func beside(got, want [][]string) (string, string) {
	f := layout{widths: make([][]int, len(got))}
	for i := range got {
		f.widths[i] = make([]int, len(got[i]))
	}
	f.fit(got)
	f.fit(want)
	return strings.TrimRight(f.row(got), " "), strings.TrimRight(f.row(want), " ")
}
