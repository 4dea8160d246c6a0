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

// Options configure Read. The zero Options do not sort lines, and give no fields but the time.
type Options struct {
	Reorder   time.Duration // how far a line may be behind the latest time to be sorted; below 0 means 0
	TimeField string        // the dotted name of the JSON member with the time; empty: the usual names
	KeyField  string        // the dotted name of the JSON member for Entry.Key; empty: none
	Fields    Fields        // the requested fields; others are empty, so that they need no memory
	Progress  func(n int)   // if not nil, it is called when n more bytes were read, before decompression
}

// Read reads inputs as one stream of entries in time order, and calls add for each. The pointer is the
// same every time. The order of the inputs matters only for equal times. Read returns the error of add or
// of ctx, an [*UnreadableError], or a read error with the name of the input.
func Read(ctx context.Context, inputs []Input, o Options, add func(*Entry) error) (Stats, error) {
	m := merger{ctx: ctx, o: o}
	err := m.read(inputs, add)
	return m.stats, err
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

// read reads the inputs until their end.
func (m *merger) read(inputs []Input, add func(*Entry) error) error {
	defer m.close()
	if err := m.start(inputs); err != nil {
		return err
	}
	w := &window{length: max(m.o.Reorder, 0), fields: m.o.Fields, stats: &m.stats, emit: add, most: maxHeld}
	for len(m.queue) > 0 {
		first := m.queue[0]
		var err error
		if first.file != nil {
			err = w.add(&first.head)
		} else {
			err = first.open(m.ctx, m.o, &m.stats)
		}
		if err != nil {
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
	return cmp.Or(w.end(), m.ctx.Err(), m.stats.checkReadable())
}

// start opens every input once, so that an input that cannot be opened is an error before the first
// entry.
func (m *merger) start(inputs []Input) error {
	for i, in := range inputs {
		s := &source{Input: in, index: i, head: Entry{File: in.Name}}
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
