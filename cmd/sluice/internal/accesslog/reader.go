package accesslog

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// DefaultReorder is the usual [Options.Reorder]. Servers log a request when it is answered, with
// the time when it came.
const DefaultReorder = time.Minute

// Options configure Read. The zero Options do not sort lines, and give all fields.
type Options struct {
	Reorder   time.Duration // how far a line may be behind the latest time to be sorted; below 0 means 0
	TimeField string        // the dotted name of the JSON member with the time; empty: the usual names
	KeyField  string        // the dotted name of the JSON member for Entry.Key; empty: none
	Fields    Fields        // the requested fields; others are empty. Fewer fields need less memory
	Progress  func(n int)   // if not nil, it is called on another goroutine when n more bytes were read, before decompression
}

// readAhead is the number of batches that wait for the function that Read calls.
const readAhead = 2

// Read reads inputs as one stream of entries in time order, and calls add for each. The pointer is the
// same every time. The order of the inputs matters only for equal times. Read returns the error of add or
// of ctx, an [*UnreadableError], or a read error with the name of the input.
//
// A goroutine reads ahead. It ends when Read returns, but not while a Read of an input blocks.
func Read(ctx context.Context, inputs []Input, o Options, add func(*Entry) error) (Stats, error) {
	o.Fields = cmp.Or(o.Fields, allFields)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan []record, readAhead)
	m := merger{ctx: ctx, o: o}
	var end error
	go func() {
		defer close(batches)
		end = m.read(inputs, func(batch []record) {
			select {
			case batches <- batch:
			case <-ctx.Done(): // the next read of an input returns its error
			}
		})
	}()
	var e Entry
	for {
		select {
		case <-ctx.Done():
			return Stats{}, ctx.Err()
		case batch, ok := <-batches:
			if !ok {
				return m.stats, end
			}
			for i := range batch {
				batch[i].read(&e, o.Fields)
				e.File = inputs[batch[i].input].Name
				if err := add(&e); err != nil {
					return Stats{}, err
				}
			}
		}
	}
}

// merger merges the entries of several inputs by time. For equal times the first input goes first.
// It opens an input only when its first entry is due, so a year of rotated files needs no more
// memory than one file.
type merger struct {
	ctx   context.Context
	o     Options
	stats Stats
	queue []*source // that are not yet at their end, sorted
}

// read reads the inputs and sends batches until their end.
func (m *merger) read(inputs []Input, send func([]record)) error {
	defer m.close()
	if err := m.start(inputs); err != nil {
		return err
	}
	w := &window{length: max(m.o.Reorder, 0), fields: m.o.Fields, stats: &m.stats, send: send, most: maxHeld}
	for len(m.queue) > 0 {
		first := m.queue[0]
		if first.file != nil {
			w.add(&first.head, first.index)
		} else if err := first.open(m.ctx, m.o, &m.stats); err != nil {
			return err
		}
		more, err := first.next()
		if err != nil {
			return err
		}
		if !more {
			m.queue = m.queue[1:]
		}
		m.sort()
	}
	w.flush()
	return cmp.Or(m.ctx.Err(), m.stats.checkReadable())
}

// start opens every input once, so that an input that cannot be opened is an error before the first
// entry.
func (m *merger) start(inputs []Input) error {
	for i, in := range inputs {
		s := &source{Input: in, index: i}
		if len(inputs) > 1 && !in.Once {
			first := &source{Input: in}
			o := m.o
			o.Progress = nil
			if err := first.open(m.ctx, o, new(Stats)); err != nil {
				return err
			}
			more, err := first.next()
			if err != nil {
				return err
			}
			if more {
				first.file.Close()
				s.head.Time = first.head.Time
			}
		}
		m.queue = append(m.queue, s)
	}
	slices.SortFunc(m.queue, (*source).compare)
	return nil
}

// sort moves the first input, whose time has changed, to its place.
func (m *merger) sort() {
	for i := 1; i < len(m.queue) && m.queue[i].compare(m.queue[i-1]) < 0; i++ {
		m.queue[i], m.queue[i-1] = m.queue[i-1], m.queue[i]
	}
}

// close closes what is still open after an error.
func (m *merger) close() {
	for _, s := range m.queue {
		if s.file != nil {
			s.file.Close()
		}
	}
}
