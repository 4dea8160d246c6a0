package accesslog

import (
	"bytes"
	"slices"
	"sort"
	"time"
)

// window sorts entries that are out of order by at most its length. It holds entries until no later one can come before them.
//
// A log may have any number of entries within the window, in particular after a line with a time
// in the future. Above most bytes the window becomes shorter: it emits the oldest entries early,
// and later entries with an older time are late.
type window struct {
	length time.Duration
	fields Fields
	stats  *Stats
	emit   func(*Entry) error

	latest  time.Time // the latest time so far; the zero time is before that of every entry
	oldest  time.Time // an entry before it is late: latest less the length, or more
	emitted time.Time // the latest time when entries were last emitted
	most    int       // the limit of size
	held    []*Entry  // in the order of arrival
	size    int       // of held, in bytes
}

const maxHeld = 128 << 20 // some 300,000 entries with all their fields

// add adds an entry. It copies the texts.
func (w *window) add(e *Entry) error {
	switch order := e.Time.Compare(w.latest); {
	case order > 0:
		w.latest = e.Time
		if oldest := e.Time.Add(-w.length); w.oldest.Before(oldest) {
			w.oldest = oldest
		}
	case order == 0:
	case e.Time.Before(w.oldest):
		w.stats.Late++
		e.Time, e.Late = w.latest, true
	default:
		w.stats.Reordered++
	}
	held := e.clone(w.fields)
	w.held, w.size = append(w.held, held), w.size+held.size()
	if w.latest.Sub(w.emitted) > w.length || w.size > w.most {
		return w.flush()
	}
	return nil
}

// flush sorts the entries and emits those that no later entry can precede. If they take too much memory, it emits a quarter of
// them at least, so that the cost of an entry does not depend on the number of those that are held.
func (w *window) flush() error {
	slices.SortStableFunc(w.held, func(e, f *Entry) int { return e.Time.Compare(f.Time) })
	n := sort.Search(len(w.held), func(i int) bool { return w.held[i].Time.After(w.oldest) })
	if least := len(w.held)/4 + 1; w.size > w.most && n < least {
		n = least
		w.oldest = w.held[n-1].Time
	}
	for _, e := range w.held[:n] {
		w.size -= e.size()
		if err := w.emit(e); err != nil {
			return err
		}
	}
	w.held = slices.Delete(w.held, 0, n)
	w.emitted = w.latest
	return nil
}

// end emits all remaining entries.
func (w *window) end() error {
	w.oldest = w.latest
	return w.flush()
}

// clone returns a copy of the entry with these fields only.
func (e *Entry) clone(fields Fields) *Entry {
	c := &Entry{Time: e.Time, File: e.File, Line: e.Line, Late: e.Late}
	to := c.texts()
	for i, text := range e.texts() {
		if fields&(1<<i) != 0 {
			*to[i] = bytes.Clone(*text)
		}
	}
	return c
}

// size returns about how many bytes the entry takes.
func (e *Entry) size() int {
	size := 300
	for _, text := range e.texts() {
		size += len(*text)
	}
	return size
}
