package trace

import (
	"fmt"
	"slices"
	"strings"
)

// Difference is an event whose answers are not those that its line wants.
type Difference struct {
	File  string // the name that the trace was parsed under
	Line  int    // from 1
	Event string // what stands left of the arrow
	Got   string // what was decided
	Want  string // what stands right of the arrow; empty if nothing does
}

// String is three lines, got above want.
func (d Difference) String() string {
	want := d.Want
	if want == "" {
		want = "(nothing right of ->)"
	}
	return fmt.Sprintf("%s:%d: %s\n\tgot  %s\n\twant %s", d.File, d.Line, d.Event, d.Got, want)
}

// Check runs the trace and returns every event that was answered otherwise than
// its line wants. An event that wants nothing differs too: it tests nothing.
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

// beside writes two answers so that their words line up.
func beside(got, want [][]string) (string, string) {
	f := layout{widths: make([][]int, len(got))}
	for i := range got {
		f.widths[i] = make([]int, len(got[i]))
	}
	f.fit(got)
	f.fit(want)
	return strings.TrimRight(f.row(got), " "), strings.TrimRight(f.row(want), " ")
}
