package accesslog

import (
	"cmp"
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
// A goroutine of the Reader reads ahead. It ends at the end of the inputs, when the context ends,
// or after Close, but not while a Read of an input blocks.
type Reader struct {
	ctx    context.Context
	cancel context.CancelFunc
	merger merger
	count  atomic.Int64

	full  chan *records // from the goroutine, which closes it at its end
	spent chan *records // back to it
	end   error         // why the goroutine has ended; nil at the end of the inputs

	batch *records
	next  int // the index in batch
	entry Entry
	ended bool
	stats Stats
	err   error
}

// batches is the number of batches that exist. The channels have room for all of them.
const batches = 4

// NewReader returns a Reader, which opens and closes the inputs itself. Their order matters only
// for equal times. To stop the Reader before its end, close it or cancel ctx.
func NewReader(ctx context.Context, inputs []Input, o Options) *Reader {
	if o.Fields &= allFields; o.Fields == 0 {
		o.Fields = allFields
	}
	r := &Reader{
		full:  make(chan *records, batches),
		spent: make(chan *records, batches),
		batch: new(records),
	}
	for range batches - 2 {
		r.spent <- new(records)
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.merger = merger{ctx: r.ctx, inputs: inputs, o: o, count: &r.count, stats: new(Stats)}
	go func() {
		defer close(r.full)
		r.end = r.read()
	}()
	return r
}

// read reads the inputs and sends batches until their end.
func (r *Reader) read() error {
	m := &r.merger
	if err := m.start(); err != nil {
		return err
	}
	window := newWindow(m.o.Reorder, m.o.Fields, m.stats, r.send)
	if err := m.run(window.add); err != nil {
		return err
	}
	window.flush()
	return cmp.Or(r.ctx.Err(), m.stats.checkReadable())
}

// send sends a batch. After the end of the context it drops the batch, and the next read of an input
// ends the goroutine.
func (r *Reader) send(batch *records) (empty *records) {
	empty = batch
	if r.ctx.Err() == nil {
		r.full <- batch
		select {
		case empty = <-r.spent:
		case <-r.ctx.Done():
			return new(records)
		}
	}
	empty.reset()
	return empty
}

// Next moves to the next entry. It returns false at the end and on an error; see Err.
func (r *Reader) Next() bool {
	for r.next == len(r.batch.list) {
		if r.ended || !r.receive() {
			return false
		}
	}
	r.batch.read(r.next, &r.entry, r.merger.o.Fields)
	r.entry.File = r.merger.inputs[r.batch.list[r.next].input].Name
	r.next++
	return true
}

// receive makes the next batch the current one.
func (r *Reader) receive() bool {
	select {
	case b, ok := <-r.full:
		if ok {
			r.spent <- r.batch
			r.batch, r.next = b, 0
			return true
		}
		r.stats, r.err = *r.merger.stats, r.end
	case <-r.ctx.Done():
		r.err = r.ctx.Err()
	}
	r.ended = true
	return false
}

// Entry returns the current entry. The pointer is the same every time.
func (r *Reader) Entry() *Entry { return &r.entry }

// Err returns the reason why Next returned false: nil at the end of the inputs, an
// [*UnreadableError], the context's error, or a read error with the name of the input.
func (r *Reader) Err() error { return r.err }

// Stats returns the counts of the inputs after Next has returned false at their end.
func (r *Reader) Stats() Stats { return r.stats }

// BytesRead returns the number of bytes read so far, before decompression, to show progress.
// Any goroutine may call it.
func (r *Reader) BytesRead() int64 { return r.count.Load() }

// Close stops the Reader. Next then returns false, and Err returns [context.Canceled] unless
// the end had been reached.
func (r *Reader) Close() {
	r.cancel()
	r.next = len(r.batch.list)
	if !r.ended {
		r.ended, r.err = true, context.Canceled
	}
}
