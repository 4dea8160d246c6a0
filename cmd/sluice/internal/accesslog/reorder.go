package accesslog

import (
	"slices"
	"time"
)

// window puts entries right that are out of order by no more than its length. It
// drops each entry into the bucket of its second, and empties a bucket, oldest
// first, once nothing can fall into it any more. So an entry costs the same
// however much the log is shuffled, unless it has stamps finer than a second.
//
// A log may hold any number of entries within the window, above all when one line
// with a stamp from the future has made all that follow it late. Above most bytes
// the window grows shorter: the oldest bucket goes before its time, and what comes
// for it afterwards is late.
type window struct {
	sec    int64 // length, in seconds
	nsec   int32 // and nanoseconds
	grain  int64 // seconds that share a bucket
	fields Fields
	stats  *Stats
	emit   func(record []byte) error

	started bool
	latest  stamp // of all entries so far
	oldest  stamp // parseRequest lies before is late: latest less the window, or more
	held    int   // bytes in all buckets
	most    int   // that may be held
	ring    []bucket
	low     int64 // number of the oldest bucket; bucket n is ring[n mod len(ring)]
	refs    []ref // scratch
}

// bucket holds the records of one grain of time in the order in which they came.
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
	maxBuckets = 1024     // bounds the ring of a very long window
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

// add takes an entry in. Its text is copied.
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

// advance moves the window so that it ends with at.
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

// shorten empties the oldest bucket that holds anything.
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

// flush emits all that is left.
func (w *window) flush() error {
	return w.empty(w.low + int64(len(w.ring)))
}

// empty emits the buckets below low. A ring's length of them is all there are.
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

// reset empties the bucket. One that a burst has blown up gives its memory back.
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
