package accesslog

// batch has records in the order of delivery.
type batch struct {
	records []byte
	counts  Stats
	last    bool
	err     error // parseRequest ended the reading; in the last batch
}

// newBatch returns a batch with capacity for the record that exceeds batchSize, unless it is long.
func newBatch() *batch {
	return &batch{records: make([]byte, 0, batchSize+4096)}
}

const (
	batchSize  = 64 << 10
	batchAhead = 4
)

// readAhead fills batches until the end of the inputs.
func (r *Reader) readAhead() {
	defer close(r.full)
	w := writer{r: r, batch: newBatch()}
	err := w.write()
	w.batch.last, w.batch.err = true, err
	_ = w.send() // the reader was closed
}

// writer is the goroutine's side of a Reader.
type writer struct {
	r     *Reader
	batch *batch
}

func (w *writer) write() error {
	m := &w.r.merger
	if err := m.start(); err != nil {
		return err
	}
	window := newWindow(m.o.Reorder, w.r.fields, m.stats, w.record)
	if err := m.run(window.add); err != nil {
		return err
	}
	if err := window.flush(); err != nil {
		return err
	}
	return m.stats.verdict()
}

func (w *writer) record(record []byte) error {
	w.batch.records = append(w.batch.records, record...)
	if len(w.batch.records) < batchSize {
		return nil
	}
	if err := w.send(); err != nil {
		return err
	}
	select {
	case w.batch = <-w.r.spent:
		*w.batch = batch{records: w.batch.records[:0]}
	default:
		w.batch = newBatch()
	}
	return nil
}

func (w *writer) send() error {
	w.batch.counts = *w.r.merger.stats
	if !w.batch.last {
		w.batch.counts.Files = nil // still being written
	}
	select {
	case w.r.full <- w.batch:
		return nil
	case <-w.r.ctx.Done():
		return w.r.ctx.Err()
	}
}
