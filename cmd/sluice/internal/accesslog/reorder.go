package accesslog

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"time"
)

// window sorts entries that are out of order by at most its length. It adds each entry to the
// bucket of its second, and emits a bucket, oldest first, when no later entry can belong to it.
// So the cost of an entry does not depend on the disorder of the log, unless times have
// fractions of a second.
//
// A log may have any number of entries within the window, in particular after a line with a time
// in the future. Above most bytes the window becomes shorter: it emits the oldest bucket early,
// and later entries for that bucket are late.
type window struct {
	length time.Duration
	grain  int64 // seconds that share a bucket, a power of 2
	fields Fields
	stats  *Stats
	send   func(batch *records) (empty *records)

	latest  time.Time // the latest time so far
	oldest  time.Time // an entry before it is late: latest less the length, or more
	held    int       // the bytes in all buckets
	most    int       // the limit of held
	buckets []*bucket // in the order of time
	spare   []*bucket // for reuse
	batch   *records  // the next batch to send
}

// bucket has the records of one grain of time, in the order of arrival.
type bucket struct {
	start int64 // in seconds since 1970
	records
}

const (
	maxBuckets = 1024     // limits the buckets of a very long window
	maxHeld    = 64 << 20 // some 600,000 entries with all their fields
	batchSize  = 64 << 10
)

// longAgo is before every time of an entry.
var longAgo = time.Unix(-1<<62, 0)

func newWindow(length time.Duration, fields Fields, stats *Stats, send func(*records) *records) *window {
	length = max(length, 0)
	grain := int64(1) << bits.Len64(uint64(length/time.Second/maxBuckets))
	return &window{length: length, grain: grain, fields: fields, stats: stats, send: send, most: maxHeld,
		latest: longAgo, oldest: longAgo, batch: new(records)}
}

// add adds an entry. It copies the texts.
func (w *window) add(e *Entry, input int) {
	order := e.Time.Compare(w.latest)
	switch {
	case order > 0:
		w.advance(e.Time)
	case order == 0:
	case e.Time.Before(w.oldest):
		w.stats.Late++
		e.Time, e.Late = w.latest, true
	default:
		w.stats.Reordered++
	}
	b := w.bucket(e.Time.Unix() &^ (w.grain - 1))
	w.held += b.add(e, input, w.fields)
	if w.held > w.most {
		w.oldest = time.Unix(w.buckets[0].start+w.grain, 0)
		if w.latest.Before(w.oldest) {
			w.oldest = w.latest
		}
		w.emitOldest()
	}
}

// advance moves the end of the window to at.
func (w *window) advance(at time.Time) {
	w.latest = at
	if oldest := at.Add(-w.length); w.oldest.Before(oldest) {
		w.oldest = oldest
	}
	for len(w.buckets) > 0 && w.buckets[0].start+w.grain <= w.oldest.Unix() {
		w.emitOldest()
	}
}

// bucket returns the bucket that begins at start. It adds one if there is none.
func (w *window) bucket(start int64) *bucket {
	i := len(w.buckets)
	for i > 0 && w.buckets[i-1].start > start {
		i--
	}
	if i > 0 && w.buckets[i-1].start == start {
		return w.buckets[i-1]
	}
	var b *bucket
	if n := len(w.spare); n > 0 {
		b, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		b = new(bucket)
	}
	b.start = start
	w.buckets = slices.Insert(w.buckets, i, b)
	return b
}

// flush sends all remaining entries.
func (w *window) flush() {
	for len(w.buckets) > 0 {
		w.emitOldest()
	}
	w.send(w.batch)
}

// emitOldest moves the records of the oldest bucket to the batch, and sends the batch when it is full.
func (w *window) emitOldest() {
	b := w.buckets[0]
	w.buckets = w.buckets[1:]
	w.held -= b.size()
	if !slices.IsSortedFunc(b.list, byTime) {
		slices.SortStableFunc(b.list, byTime)
	}
	for _, r := range b.list {
		w.batch.copy(r, &b.records)
		if w.batch.size() >= batchSize {
			w.batch = w.send(w.batch)
		}
	}
	if b.size() < maxHeld/maxBuckets { // so that the spare buckets too take at most maxHeld
		b.reset()
		w.spare = append(w.spare, b)
	}
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

// add adds the requested fields of e. It returns their size.
func (b *records) add(e *Entry, input int, fields Fields) (size int) {
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
	return recordSize + len(b.texts) - start
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
