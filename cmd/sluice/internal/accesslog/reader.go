package accesslog

import (
	"context"
	"sync/atomic"
	"time"
)

// DefaultReorder is the usual [Options.Reorder]. Servers log a request when it is answered, with
// the time when it came.
const DefaultReorder = time.Minute

// Options configure a Reader. The zero Options do not sort lines, and give all fields.
type Options struct {
	Reorder   time.Duration // how far a line may be behind the latest time to be sorted; below 0 means 0
	TimeField string        // the dotted name of the JSON member with the time; empty: the usual names
	KeyField  string        // the dotted name of the JSON member for Entry.Key; empty: none
	Fields    Fields        // the requested fields; others are empty. Fewer fields need less memory
}

// Reader reads inputs as one stream of entries in time order. Only one goroutine may use it,
// except for BytesRead.
//
// The first Next starts a goroutine that reads ahead. The goroutine ends at the end of the
// inputs, when the context ends, or after Close, but not while a Read of an input blocks.
type Reader struct {
	ctx    context.Context
	cancel context.CancelFunc
	merger merger
	fields Fields
	count  atomic.Int64

	full  chan *batch // from the goroutine, closed by it at its end
	spent chan *batch // back to it

	batch *batch
	rest  []byte // of batch.records
	entry Entry
	stats Stats
	ended bool
	err   error
}

// NewReader returns a Reader, which opens and closes the inputs itself. Their order matters only
// for equal times. To stop the Reader before its end, close it or cancel ctx.
func NewReader(ctx context.Context, inputs []Input, o Options) *Reader {
	r := &Reader{fields: o.Fields}
	if r.fields &= allFields; r.fields == 0 {
		r.fields = allFields
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.merger = merger{ctx: r.ctx, inputs: inputs, o: o, count: &r.count, stats: new(Stats)}
	return r
}

// Next moves to the next entry. It returns false at the end and on an error; see Err.
func (r *Reader) Next() bool {
	for len(r.rest) == 0 {
		if r.ended || !r.receive() {
			return false
		}
	}
	n := recordLen(r.rest)
	input := readRecord(r.rest[:n], &r.entry, r.fields)
	r.entry.File = r.merger.inputs[input].Name
	r.rest = r.rest[n:]
	return true
}

// Entry returns the current entry. The pointer is the same every time.
func (r *Reader) Entry() *Entry { return &r.entry }

// Err returns the reason why Next returned false: nil at the end of the inputs, an
// [*UnreadableError], the context's error, or a read error with the name of the input.
func (r *Reader) Err() error { return r.err }

// Stats returns the counts so far. They may be some entries ahead of Next.
func (r *Reader) Stats() Stats { return r.stats }

// BytesRead returns the number of bytes read so far, before decompression, to show progress.
// Any goroutine may call it.
func (r *Reader) BytesRead() int64 { return r.count.Load() }

// Close stops the Reader. Next then returns false, and Err returns [context.Canceled] unless
// the end had been reached.
func (r *Reader) Close() {
	r.cancel()
	r.rest = nil
	if !r.ended {
		r.ended, r.err = true, context.Canceled
	}
}

// receive makes the next batch the current one.
func (r *Reader) receive() bool {
	if r.full == nil {
		r.full, r.spent = make(chan *batch, batchAhead), make(chan *batch, batchAhead+2)
		go r.readAhead()
	}
	if r.batch != nil {
		r.spent <- r.batch // never blocks: it has room for every batch there is
		r.batch = nil
	}
	select {
	case b, ok := <-r.full:
		if ok {
			r.batch, r.rest, r.stats = b, b.records, b.counts
			r.ended, r.err = b.last, b.err
			return true
		}
	case <-r.ctx.Done():
	}
	r.ended, r.err = true, r.ctx.Err()
	return false
}
