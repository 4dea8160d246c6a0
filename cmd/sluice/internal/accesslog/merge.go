package accesslog

import (
	"context"
	"slices"
	"sync/atomic"
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
	queue  []pendingInput
}

// pendingInput is an input that is not yet at its end.
type pendingInput struct {
	index  int     // of the input
	at     stamp   // of its next entry
	source *source // nil: not yet open
}

func (t pendingInput) before(u pendingInput) bool {
	return t.at.before(u.at) || t.at == u.at && t.index < u.index
}

// unknown comes before every stamp: the input must be opened to know.
var unknown = stamp{sec: -1 << 62}

// start opens every input once, so that an input that cannot be opened is an error before the first
// entry.
func (m *merger) start() error {
	m.stats.Files = make([]File, len(m.inputs))
	for i, in := range m.inputs {
		m.stats.Files[i].Name = in.Name
		t := pendingInput{index: i, at: unknown}
		if len(m.inputs) > 1 && !in.Once {
			if err := m.peek(&t); err != nil {
				return err
			}
		}
		m.queue = append(m.queue, t)
	}
	return nil
}

// peek finds out at what time an input begins, unless its first lines do not tell.
func (m *merger) peek(t *pendingInput) error {
	s, err := m.inputs[t.index].open(m.ctx, m.o, new(atomic.Int64), new(File), new(Stats))
	if err != nil {
		return err
	}
	for range 100 {
		entry, more := s.step()
		if entry {
			t.at = s.head.at
		}
		if entry || !more {
			break
		}
	}
	return s.end()
}

// run calls add for every entry, with the index of its input.
func (m *merger) run(add func(*Entry, int) error) error {
	defer m.close()
	for len(m.queue) > 0 {
		first, second := m.nextInputs()
		if m.queue[first].source == nil {
			if err := m.open(&m.queue[first]); err != nil {
				return err
			}
		} else if err := m.drain(&m.queue[first], second, add); err != nil {
			return err
		}
		if m.queue[first].source == nil {
			m.queue = slices.Delete(m.queue, first, first+1)
		}
	}
	return nil
}

// nextInputs is the place of the turn that comes first, and the turn after it.
func (m *merger) nextInputs() (first int, second pendingInput) {
	second = pendingInput{at: stamp{sec: 1<<63 - 1}}
	for i, t := range m.queue[1:] {
		switch {
		case t.before(m.queue[first]):
			first, second = i+1, m.queue[first]
		case t.before(second):
			second = t
		}
	}
	return first, second
}

func (m *merger) open(t *pendingInput) (err error) {
	t.source, err = m.inputs[t.index].open(m.ctx, m.o, m.count, &m.stats.Files[t.index], m.stats)
	if err != nil {
		return err
	}
	return t.next()
}

// drain gives the entries of t until it is the turn of another.
func (m *merger) drain(t *pendingInput, second pendingInput, add func(*Entry, int) error) error {
	for t.source != nil && t.before(second) {
		if err := add(&t.source.head, t.index); err != nil {
			return err
		}
		if err := t.next(); err != nil {
			return err
		}
	}
	return nil
}

// next moves to the next entry; at the end of the input there is no source any more.
func (t *pendingInput) next() error {
	ok, err := t.source.next()
	if !ok {
		t.source = nil
		return err
	}
	t.at = t.source.head.at
	return nil
}

// close closes what is still open after an error.
func (m *merger) close() {
	for _, t := range m.queue {
		if t.source != nil {
			t.source.file.Close()
		}
	}
}
