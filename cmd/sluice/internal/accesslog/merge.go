package accesslog

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// merger merges the entries of several inputs by time. For equal times the first input goes first.
// It opens an input only when its first entry is due, so a year of rotated files needs no more
// memory than one file.
type merger struct {
	ctx    context.Context
	inputs []Input
	o      Options
	count  *atomic.Int64
	stats  *Stats
	queue  []pendingInput // sorted
}

// pendingInput is an input that is not yet at its end.
type pendingInput struct {
	index  int       // of the input
	at     time.Time // of its next entry; longAgo if the input must be opened to know it
	source *source   // nil: not yet open
}

func (t pendingInput) compare(u pendingInput) int {
	return cmp.Or(t.at.Compare(u.at), cmp.Compare(t.index, u.index))
}

// start opens every input once, so that an input that cannot be opened is an error before the first
// entry.
func (m *merger) start() error {
	for i, in := range m.inputs {
		t := pendingInput{index: i, at: longAgo}
		if len(m.inputs) > 1 && !in.Once {
			var err error
			if t.at, err = m.peek(in); err != nil {
				return err
			}
		}
		m.queue = append(m.queue, t)
	}
	slices.SortFunc(m.queue, pendingInput.compare)
	return nil
}

// peek returns the time of the first entry of an input; longAgo if it has none.
func (m *merger) peek(in Input) (time.Time, error) {
	s, err := in.open(m.ctx, m.o, new(atomic.Int64), new(Stats))
	if err != nil {
		return longAgo, err
	}
	if found, err := s.next(); !found {
		return longAgo, err
	}
	s.file.Close()
	return s.head.Time, nil
}

// run calls add for every entry, with the index of its input.
func (m *merger) run(add func(*Entry, int)) (err error) {
	defer m.close()
	for len(m.queue) > 0 {
		first := &m.queue[0]
		if first.source != nil {
			add(&first.source.head, first.index)
		} else if first.source, err = m.inputs[first.index].open(m.ctx, m.o, m.count, m.stats); err != nil {
			return err
		}
		more, err := first.source.next()
		if !more {
			m.queue = m.queue[1:]
			if err != nil {
				return err
			}
			continue
		}
		first.at = first.source.head.Time
		m.sort()
	}
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
	for _, t := range m.queue {
		if t.source != nil {
			t.source.file.Close()
		}
	}
}
