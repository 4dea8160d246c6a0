package accesslog

import (
	"context"
	"sync/atomic"
	"time"
)

// DefaultReorder is the [Options.Reorder] to offer: servers stamp a request when it
// comes and log it when it is answered.
const DefaultReorder = time.Minute

// Options says how to read. The zero Options put nothing right that is out of
// order and give every field.
type Options struct {
	Reorder   time.Duration // how far behind the latest stamp a line may be to be put right; below 0 counts as 0
	TimeField string        // the member of a JSON line that has the time, as a dotted name; empty: the usual names
	KeyField  string        // the member of a JSON line for Entry.Key; empty: none
	Fields    Fields        // the fields that are needed; others are empty. Fewer need less memory
}

// Reader reads inputs as one stream of entries in time order. It is for one
// goroutine, apart from BytesRead.
//
// The first Next starts a goroutine that reads ahead. It ends at the end of the
// inputs, with the context, or after Close, but not while a Read of an input hangs.
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

// NewReader reads the inputs, which it opens and closes itself. Their order matters
// for equal stamps only. Close the Reader, or end ctx, to stop it before its end.
func NewReader(ctx context.Context, inputs []Input, o Options) *Reader {
	r := &Reader{fields: o.Fields}
	if r.fields &= allFields; r.fields == 0 {
		r.fields = allFields
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.merger = merger{ctx: r.ctx, inputs: inputs, o: o, count: &r.count, stats: new(Stats)}
	return r
}

// Next moves on to the next entry. It is false at the end, and on an error, which
// Err then tells.
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

// Entry is the entry that Next moved to. It is the same Entry every time.
func (r *Reader) Entry() *Entry { return &r.entry }

// Err is why Next returned false: nil at the end of the inputs, an
// [*UnreadableError], the context's error, or what failed, with the name of the input.
func (r *Reader) Err() error { return r.err }

// Stats counts what was read so far, some entries ahead of Next.
func (r *Reader) Stats() Stats { return r.stats }

// BytesRead is how much of the inputs was read, before unzipping, to show progress.
// It may be called from any goroutine.
func (r *Reader) BytesRead() int64 { return r.count.Load() }

// Close stops the reading: Next is false from then on, and Err is
// [context.Canceled] unless the end had been reached.
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
