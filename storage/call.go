package storage

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// call is one decision that a caller asked for.
type call struct {
	decide   Decide
	deadline time.Time
	keys     []string
	places   []place // in the lines of its keys, while it waits
	at       []int   // where its keys stand among those of its group
	found    [][]byte
	next     []Change

	how      How
	err      error // of decide, or why nothing could be stored
	panicked any   // of decide
	lasting  bool
	changed  bool
	gone     bool // decide has ended the goroutine that it ran on

	done chan bool // is sent answered, once, and before that overdue, at most once; nil while its caller flies it

	// What follows is of the queue, and under its lock.
	group    *group // that it is in, nil before
	turn     place  // among those that are ready, while it is
	ready    bool   // nothing but room is in its way
	apart    bool   // must be in a group of its own
	flying   bool   // on its way to the store: it may have been stored
	finished bool   // the answer stands
	late     bool   // the time is over, and it waits for the flight to end
	left     bool   // nobody waits for the answer

	watched int // its place among the deadlines, from 1; 0 if nobody waits, or is to be told

	own group    // to begin with
	few struct { // room for the keys of most
		keys   [2]string
		places [2]place
		at     [2]int
		found  [2][]byte
		next   [2]Change
		calls  [1]*call
		holds  [2]hold
	}
}

// What a caller who waits is told.
const (
	answered = true  // the answer stands
	overdue  = false // the time is over
)

var calls = sync.Pool{New: func() any { return new(call) }}

// newCall makes a call in a group of its own.
func newCall(keys []string, decide Decide) *call {
	n, c := len(keys), calls.Get().(*call)
	c.decide, c.keys = decide, append(c.few.keys[:0], keys...)
	if n <= len(c.few.at) {
		c.at, c.found, c.next, c.places = c.few.at[:n], c.few.found[:n], c.few.next[:n], c.few.places[:n]
	} else {
		c.at, c.found, c.next, c.places = make([]int, n), make([][]byte, n), make([]Change, n), make([]place, n)
	}
	c.separate()
	return c
}

// separate makes the call's own group one of it alone, that has not flown yet.
func (c *call) separate() *group {
	holds := c.few.holds[:0]
	for i, key := range c.keys {
		holds = append(holds, hold{key: key})
		c.at[i] = i
	}
	c.few.calls[0] = c
	c.own = group{calls: c.few.calls[:], holds: holds}
	return &c.own
}

// expect makes the channel on which the caller, who waits, is told.
func (c *call) expect() { c.done = make(chan bool, 2) }

// run lets decide decide, on what is in found.
func (c *call) run(now time.Time) {
	c.how.Attempts++
	clear(c.next)
	c.lasting, c.changed, c.err = false, false, errNoAnswer
	func() {
		returned := false
		defer func() {
			if c.panicked = recover(); c.panicked != nil {
				c.lasting = true
			} else if !returned { // runtime.Goexit
				c.decide, c.gone = decideNothing, true
			}
		}()
		c.lasting, c.err = c.decide(now, c.found, c.next)
		returned = true
	}()
	if c.err == nil {
		c.err = CheckChanges(c.keys, c.next)
	}
	c.changed = c.err == nil && slices.ContainsFunc(c.next, func(n Change) bool { return n.Verb != Keep })
}

// decideNothing takes the place of a decide that ended its goroutine.
func decideNothing(time.Time, [][]byte, []Change) (bool, error) { return true, errNoAnswer }

// errNoAnswer stands while decide runs: it is left if that panics.
var errNoAnswer = errors.New("storage: the decision was not made")

// answer is what the caller is told once the answer stands. Nobody else has the call
// then, so it is used again; but not one that was late, whose group may still be on its
// way with others.
func (c *call) answer() (How, error) {
	how, err, panicked := c.how, c.err, c.panicked
	if !c.late {
		*c = call{}
		calls.Put(c)
	}
	if panicked != nil {
		panic(panicked)
	}
	return how, err
}

// why is why a call that was on its way failed: last, or a conflict if that is nil.
func (c *call) why(last error) error {
	if last == nil {
		return fmt.Errorf("%w: %d attempts", ErrContended, c.how.Attempts)
	}
	return last
}

// exhausted is the error when the time is over, or the context has ended: last is why the
// call failed before, nil if it never got its turn.
func exhausted(last, ended error) error {
	switch {
	case last == nil:
		return NotApplied(ended)
	case errors.Is(last, ended):
		return NotApplied(last)
	}
	return NotApplied(fmt.Errorf("%w: %w", last, ended))
}

// unknown is the error of a decision that may have been stored. What its last
// attempt failed with proves nothing of those before.
func unknown(cause error) error {
	switch {
	case !errors.Is(cause, ErrNotApplied):
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, cause)
	case errors.Is(cause, ErrUnavailable):
		return fmt.Errorf("%w: %w (%v)", ErrOutcomeUnknown, ErrUnavailable, cause)
	}
	return fmt.Errorf("%w: %v", ErrOutcomeUnknown, cause)
}
