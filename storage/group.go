package storage

import (
	"context"
	"errors"
	"slices"
	"time"
)

// group is calls that are stored together: those of one key, or of keys that are
// connected by calls that have several.
type group struct {
	calls []*call // in the order of their arrival
	holds []hold  // their keys

	folded bool      // the calls have run on what is held
	now    time.Time // when they did
	fresh  bool      // what is held was read in the store for this group

	fate  fate
	last  error // why the latest attempt failed; nil for a conflict
	pause backoff
	sent  []Swap // whose reply was lost

	// What follows is of the queue, and under its lock.
	trip   int           // that it is taken along on, 0 for none
	until  time.Time     // when that is broken off
	rest   time.Duration // before it tries again
	closed bool          // takes nobody else
}

// hold is a key of a group.
type hold struct {
	key    string
	record Record // what was last seen in the store, if anything
	known  bool   // the record has been looked for
	seen   bool   // and is what the store held, lately enough

	state  []byte // after the calls that have run
	change Change // of all of them together
}

// fate is what became of a group in a round trip.
type fate int

const (
	stood  fate = iota // the answers stand; or the error does, if there is one
	again              // nothing was stored: try again
	lost               // the reply was lost
	broken             // nothing was stored, and trying again will not help
)

// isCrowd reports whether several callers met on its keys.
func (g *group) isCrowd() bool { return len(g.calls) > 1 }

// merge takes in the calls and keys of another group. Nothing is shared by the two,
// so that either may be taken to have come first.
func (g *group) merge(other *group) {
	for _, c := range other.calls {
		for i := range c.at {
			c.at[i] += len(g.holds)
		}
	}
	g.calls = append(g.calls, other.calls...)
	g.holds = append(g.holds, other.holds...)
	if other.pause.conflicts > g.pause.conflicts {
		g.pause = other.pause
	}
}

// fold runs the calls one after the other, each on the states that those before it
// leave.
func (g *group) fold(now time.Time) {
	for i := range g.holds {
		h := &g.holds[i]
		h.state, h.change = h.record.state(), Change{}
	}
	for _, c := range g.calls {
		for i, at := range c.at {
			c.found[i] = g.holds[at].state
		}
		if c.run(now); !c.changed {
			continue
		}
		for i, at := range c.at {
			if c.next[i].Verb != Keep {
				g.holds[at].move(c.next[i])
			}
		}
	}
	g.folded, g.now = true, now
}

func (h *hold) move(c Change) {
	h.change, h.state = c, nil
	if c.Verb == Put {
		h.state = present(c.State)
	}
}

// state is nil for an absent record, and for no other.
func (r Record) state() []byte {
	if r.Version == 0 {
		return nil
	}
	return present(r.State)
}

// present is the state of a record that is there, which is never nil.
func present(state []byte) []byte {
	if state == nil {
		return []byte{}
	}
	return state
}

// grounded reports whether every answer stands once the changes are stored. The
// keys that change are put to the test by that; the others rest on what is held.
func (g *group) grounded() bool {
	if g.fresh {
		return true
	}
	for _, c := range g.calls {
		for _, at := range c.at {
			if h := &g.holds[at]; h.change.Verb == Keep && !c.restsOn(h) {
				return false
			}
		}
	}
	return true
}

// restsOn reports whether the answer stands on what is held of a key that stays as it is.
func (c *call) restsOn(h *hold) bool { return c.lasting && (h.seen || c.err != nil) }

// stands reports whether every answer stands as it is: there is nothing to store.
func (g *group) stands() bool {
	if !g.grounded() || slices.ContainsFunc(g.calls, func(c *call) bool { return c.changed }) {
		return false
	}
	for _, c := range g.calls {
		c.how.Memory = !g.fresh && c.err == nil
	}
	return true
}

// appendSwaps appends a swap for each key that changes, all with the same new version. The
// stored states are needed until their TTL has passed by the clock that decided, which may
// be ahead of the store's.
func (g *group) appendSwaps(swaps []Swap) []Swap {
	version := NewVersion()
	for i := range g.holds {
		h := &g.holds[i]
		s := Swap{Key: h.key, Old: h.record.Version}
		switch h.change.Verb {
		case Keep:
			continue
		case Put:
			s.New, s.TTL, s.Priority = Record{version, h.change.State}, h.change.TTL, h.change.Priority
			if s.TTL > 0 {
				s.Until = g.now.Add(s.TTL)
			}
		}
		swaps = append(swaps, s)
	}
	return swaps
}

// settle takes in the answer to swaps.
func (g *group) settle(m *sightings, swaps []Swap, o Outcome) {
	switch {
	case errors.Is(o.Err, ErrTorn):
		for i := range swaps {
			m.forget(swaps[i].Key)
		}
		g.end(o.Err)
	case o.Err != nil && errors.Is(o.Err, ErrNotApplied):
		g.fresh = false
		g.fail(o.Err)
	case o.Err != nil:
		g.last, g.fate, g.sent = o.Err, lost, swaps
	case o.Swapped:
		g.last, g.fate = nil, stood
		for i := range swaps {
			m.put(swaps[i].Key, g.now, swaps[i].New)
		}
	default:
		g.last, g.fate, g.fresh, g.folded = nil, again, len(swaps) == len(g.holds), false
		at := 0
		for _, r := range o.Current { // of the keys that were to change, in their order
			for g.holds[at].change.Verb == Keep {
				at++
			}
			g.holds[at].see(m, g.now, r)
			at++
		}
	}
}

// fail takes in an error that proves that nothing was stored.
func (g *group) fail(err error) {
	g.fate, g.folded = broken, false
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if errors.Is(err, ErrContended) || errors.Is(err, ErrUnavailable) {
		if g.fate = again; ended && g.last != nil {
			return // what it failed with before says more
		}
	} else if ended && (g.last != nil || g.pause.conflicts > 0) {
		err = exhausted(g.calls[0].why(g.last), err) // the time is over; this is what it was spent on
	}
	g.last = err
}

// see takes in what is stored.
func (h *hold) see(m *sightings, now time.Time, r Record) {
	h.record, h.known, h.seen = r, true, true
	m.put(h.key, now, r)
}

// gone reports whether a decide has ended its goroutine since this was asked last.
func (g *group) gone() (gone bool) {
	for _, c := range g.calls {
		gone = gone || c.gone
		c.gone = false
	}
	return gone
}

// panics makes a panic the answer to all calls.
func (g *group) panics(p any) {
	g.fate = stood
	for _, c := range g.calls {
		c.panicked = p
	}
}

// end tells the calls that nobody knows whether they were stored, and why. One that
// changes nothing was not, but its answer may rest on one that was not either; an error
// or panic of its own stands.
func (g *group) end(why error) {
	g.fate, g.last = stood, why
	for _, c := range g.calls {
		switch {
		case c.changed:
			c.err = unknown(g.last)
		case c.err == nil:
			c.err = NotApplied(g.last)
		}
	}
}
