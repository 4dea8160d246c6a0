package accesslog

import (
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
	send   func(batch *records) (empty *records)

	latest  time.Time // the latest time so far; the zero time is before that of every entry
	oldest  time.Time // an entry before it is late: latest less the length, or more
	emitted time.Time // the latest time when entries were last emitted
	most    int       // the limit of the bytes of held
	held    *records  // in the order of arrival
	spare   *records  // for reuse
	batch   *records  // the next batch to send
}

const (
	maxHeld   = 64 << 20 // some 600,000 entries with all their fields
	maxSpare  = 1 << 20
	batchSize = 64 << 10
)

func newWindow(length time.Duration, fields Fields, stats *Stats, send func(*records) *records) *window {
	return &window{length: max(length, 0), fields: fields, stats: stats, send: send, most: maxHeld,
		held: new(records), spare: new(records), batch: new(records)}
}

// add adds an entry. It copies the texts.
func (w *window) add(e *Entry, input int) {
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
	w.held.add(e, input, w.fields)
	if w.latest.Sub(w.emitted) > w.length || w.held.size() > w.most {
		w.emit()
	}
}

// emit sorts the entries and emits those that no later entry can precede. If they take too much memory, it emits a quarter of
// them at least, so that the cost of an entry does not depend on the number of those that are held.
func (w *window) emit() {
	list := w.held.list
	if !slices.IsSortedFunc(list, byTime) {
		slices.SortStableFunc(list, byTime)
	}
	n := sort.Search(len(list), func(i int) bool { return list[i].at.After(w.oldest) })
	if least := len(list)/4 + 1; w.held.size() > w.most && n < least {
		n = least
		w.oldest = list[n-1].at
	}
	for _, r := range list[:n] {
		w.batch.copy(r, w.held)
		if w.batch.size() >= batchSize {
			w.batch = w.send(w.batch)
		}
	}
	for _, r := range list[n:] {
		w.spare.copy(r, w.held)
	}
	w.held, w.spare = w.spare, w.held
	if w.spare.size() > maxSpare {
		w.spare = new(records)
	}
	w.spare.reset()
	w.emitted = w.latest
}

// flush sends all remaining entries.
func (w *window) flush() {
	w.oldest = w.latest
	w.emit()
	w.send(w.batch)
}

// record is a waiting entry.
type record struct {
	at          time.Time
	line        int64
	input       int32
	start, size uint32 // of its texts
	late        bool
}

const recordSize = 48 // of a record, in bytes

func byTime(r, s record) int { return r.at.Compare(s.at) }

// records holds waiting entries.
type records struct {
	list  []record
	texts []byte // of each record the requested fields, each after its length
}

func (b *records) size() int { return len(b.list)*recordSize + len(b.texts) }

func (b *records) reset() { b.list, b.texts = b.list[:0], b.texts[:0] }

// add adds the requested fields of e.
func (b *records) add(e *Entry, input int, fields Fields) {
	start := len(b.texts)
	for f, text := range e.texts() {
		if fields&(1<<f) != 0 {
			b.texts = append(binary.AppendUvarint(b.texts, uint64(len(*text))), *text...)
		}
	}
	b.list = append(b.list, record{
		at: e.Time, line: e.Line, input: int32(input),
		start: uint32(start), size: uint32(len(b.texts) - start), late: e.Late,
	})
}

// copy adds a record of from.
func (b *records) copy(r record, from *records) {
	texts := from.texts[r.start : r.start+r.size]
	r.start = uint32(len(b.texts))
	b.list, b.texts = append(b.list, r), append(b.texts, texts...)
}

// read sets the requested fields of e to those of record i. The texts of e share the memory of b.
func (b *records) read(i int, e *Entry, fields Fields) {
	r := &b.list[i]
	e.Time, e.Line, e.Late = r.at, r.line, r.late
	texts := b.texts[r.start : r.start+r.size]
	for f, text := range e.texts() {
		if fields&(1<<f) != 0 {
			n, width := binary.Uvarint(texts)
			end := width + int(n)
			*text, texts = texts[width:end:end], texts[end:]
		}
	}
}
