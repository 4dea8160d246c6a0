package accesslog

import (
	"bytes"
	"encoding/binary"
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
	held    []record  // in the order of arrival
	size    int       // of held, in bytes
	texts   []byte    // for reuse
	entry   Entry     // the one that emit gets
}

const maxHeld = 64 << 20 // some 500,000 entries with all their fields

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
	w.texts = w.texts[:0]
	for f, text := range e.texts() {
		if w.fields&(1<<f) != 0 {
			w.texts = append(binary.AppendUvarint(w.texts, uint64(len(*text))), *text...)
		}
	}
	r := record{e.Time, e.File, e.Line, e.Late, bytes.Clone(w.texts)}
	w.held, w.size = append(w.held, r), w.size+r.size()
	if w.latest.Sub(w.emitted) > w.length || w.size > w.most {
		return w.flush()
	}
	return nil
}

// flush sorts the entries and emits those that no later entry can precede. If they take too much memory, it emits a quarter of
// them at least, so that the cost of an entry does not depend on the number of those that are held.
func (w *window) flush() error {
	if !slices.IsSortedFunc(w.held, byTime) {
		slices.SortStableFunc(w.held, byTime)
	}
	n := sort.Search(len(w.held), func(i int) bool { return w.held[i].at.After(w.oldest) })
	if least := len(w.held)/4 + 1; w.size > w.most && n < least {
		n = least
		w.oldest = w.held[n-1].at
	}
	for i := range w.held[:n] {
		w.size -= w.held[i].size()
		w.held[i].read(&w.entry, w.fields)
		if err := w.emit(&w.entry); err != nil {
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

// record is a waiting entry.
type record struct {
	at    time.Time
	file  string
	line  int64
	late  bool
	texts []byte // the requested fields, each after its length
}

const recordSize = 80 // of a record without its texts, in bytes

func (r *record) size() int { return recordSize + len(r.texts) }

func byTime(r, s record) int { return r.at.Compare(s.at) }

// read sets the requested fields of e, which share the memory of the record.
func (r *record) read(e *Entry, fields Fields) {
	e.Time, e.File, e.Line, e.Late = r.at, r.file, r.line, r.late
	texts := r.texts
	for f, text := range e.texts() {
		if fields&(1<<f) != 0 {
			n, width := binary.Uvarint(texts)
			end := width + int(n)
			*text, texts = texts[width:end:end], texts[end:]
		}
	}
}
