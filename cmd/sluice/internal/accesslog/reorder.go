package accesslog

import (
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
	sec    int64 // length, in seconds
	nsec   int32 // and nanoseconds
	grain  int64 // seconds that share a bucket
	fields Fields
	stats  *Stats
	emit   func(record []byte) error

	started bool
	latest  stamp // the latest time so far
	oldest  stamp // parseRequest lies before is late: latest less the window, or more
	held    int   // the bytes in all buckets
	most    int   // the limit of held
	ring    []bucket
	low     int64 // the number of the oldest bucket; bucket n is ring[n mod len(ring)]
	refs    []ref // scratch
}

// bucket has the records of one grain of time, in the order of arrival.
type bucket struct {
	records  []byte
	last     stamp
	unsorted bool
}

type ref struct {
	at    stamp
	start int // of the record in its bucket
}

const (
	maxBuckets = 1024     // limits the ring of a very long window
	maxHeld    = 64 << 20 // some 800,000 entries with all their fields
)

func newWindow(length time.Duration, fields Fields, stats *Stats, emit func([]byte) error) *window {
	length = max(length, 0)
	w := &window{fields: fields, stats: stats, emit: emit, most: maxHeld}
	w.sec, w.nsec = int64(length/time.Second), int32(length%time.Second)
	w.grain = 1 + w.sec/maxBuckets
	w.ring = make([]bucket, (w.sec+1)/w.grain+2)
	return w
}

// add adds an entry. It copies the texts.
func (w *window) add(e *Entry, input int) error {
	at := e.at
	switch {
	case !w.started || !at.before(w.latest):
		if err := w.advance(at); err != nil {
			return err
		}
	case at.before(w.oldest):
		w.stats.Late++
		at, e.Late = w.latest, true
		e.at = at
	default:
		w.stats.Reordered++
	}
	b := w.bucket(w.number(at))
	b.unsorted = b.unsorted || len(b.records) > 0 && at.before(b.last)
	before := len(b.records)
	b.records, b.last = appendRecord(b.records, e, input, w.fields), at
	if w.held += len(b.records) - before; w.held > w.most {
		return w.shorten()
	}
	return nil
}

// advance moves the end of the window to at.
func (w *window) advance(at stamp) error {
	if w.started && at == w.latest {
		return nil
	}
	w.latest = at
	oldest := at.back(w.sec, w.nsec)
	if !w.started || w.oldest.before(oldest) {
		w.oldest = oldest
	}
	low := w.number(oldest)
	if w.started {
		if err := w.empty(low); err != nil {
			return err
		}
	}
	w.low, w.started = low, true
	return nil
}

// shorten emits the oldest bucket that is not empty.
func (w *window) shorten() error {
	number := w.low
	for len(w.bucket(number).records) == 0 {
		number++
	}
	w.oldest = stamp{sec: (number + 1) * w.grain}
	if w.latest.before(w.oldest) {
		w.oldest = w.latest
	}
	return w.emitBucket(w.bucket(number))
}

// flush emits all remaining entries.
func (w *window) flush() error {
	return w.empty(w.low + int64(len(w.ring)))
}

// empty emits the buckets below low, at most all of the ring.
func (w *window) empty(low int64) error {
	low = min(low, w.low+int64(len(w.ring)))
	for ; w.low < low; w.low++ {
		if err := w.emitBucket(w.bucket(w.low)); err != nil {
			return err
		}
	}
	return nil
}

func (w *window) emitBucket(b *bucket) error {
	w.held -= len(b.records)
	if b.unsorted {
		return w.emitSorted(b)
	}
	for rest := b.records; len(rest) > 0; {
		n := recordLen(rest)
		if err := w.emit(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	b.reset()
	return nil
}

func (w *window) emitSorted(b *bucket) error {
	w.refs = w.refs[:0]
	for i := 0; i < len(b.records); i += recordLen(b.records[i:]) {
		w.refs = append(w.refs, ref{recordStamp(b.records[i:]), i})
	}
	slices.SortStableFunc(w.refs, func(x, y ref) int { return x.at.compare(y.at) })
	for _, r := range w.refs {
		record := b.records[r.start:]
		if err := w.emit(record[:recordLen(record)]); err != nil {
			return err
		}
	}
	b.reset()
	return nil
}

// reset empties the bucket. It frees the memory of a bucket that a burst has enlarged.
func (b *bucket) reset() {
	if cap(b.records) > 1<<20 && len(b.records) < cap(b.records)/4 {
		b.records = nil
	}
	b.records, b.unsorted = b.records[:0], false
}

func (w *window) number(at stamp) int64 { return floorDiv(at.sec, w.grain) }

func (w *window) bucket(number int64) *bucket {
	n := int64(len(w.ring))
	return &w.ring[number-floorDiv(number, n)*n]
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
