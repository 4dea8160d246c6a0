package replay

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Replay runs requests through policies and counts the results. Only one goroutine may use it.
type Replay struct {
	columns  []column
	keys     keys
	timeline Timeline
	last     int64

	requests      int64
	disagreements int64
	examples      []Example
	verdicts      []bool
}

// column has one policy and its counts.
type column struct {
	policy     algo.Policy
	period     int64
	bound      int64
	inRequests bool // bound counts requests, not units
	cells      table

	allowed, denied int64
	never           int64
	worst           int64
	longest         time.Duration
	spare           []byte
}

// New returns a Replay of the policies. A request costs what the options of the policy say, by
// default one unit.
func New(policies ...algo.Policy) *Replay {
	r := &Replay{
		timeline: newTimeline(len(policies)),
		verdicts: make([]bool, len(policies)),
	}
	for _, p := range policies {
		r.columns = append(r.columns, newColumn(p))
	}
	return r
}

func newColumn(p algo.Policy) column {
	c := column{policy: p, period: int64(p.Limit().Period)}
	c.bound, c.inRequests = bound(p)
	return c
}

// Add replays one request. It returns an error if the time is before the previous request's.
func (r *Replay) Add(at time.Time, key []byte) error {
	now := algo.Instant(at)
	if now < r.last {
		return fmt.Errorf("replay: request at %v comes after one at %v", at.UTC(), time.Unix(0, r.last).UTC())
	}
	r.last = now
	r.timeline.at(now)
	id := r.id(key)
	for i := range r.columns {
		allowed, err := r.columns[i].step(id, at, now)
		if err != nil {
			return fmt.Errorf("replay: key %q under %v: %w", key, r.columns[i].policy, err)
		}
		r.verdicts[i] = allowed
		r.timeline.count(i, allowed)
	}
	r.requests++
	r.compare(at, key)
	return nil
}

func (r *Replay) id(key []byte) int32 {
	id, seen := r.keys.ids[string(key)]
	if !seen {
		id = r.keys.add(string(key))
		for i := range r.columns {
			r.columns[i].cells.grow()
		}
	}
	return id
}

// keys numbers keys in the order of their first requests.
type keys struct {
	ids   map[string]int32
	names []string
}

func (k *keys) add(name string) (id int32) {
	if k.ids == nil {
		k.ids = make(map[string]int32)
	}
	id = int32(len(k.names))
	k.names = append(k.names, name)
	k.ids[name] = id
	return id
}

// compare counts the request if the policies disagree on it.
func (r *Replay) compare(at time.Time, key []byte) {
	for _, v := range r.verdicts {
		if v == r.verdicts[0] {
			continue
		}
		r.disagreements++
		if len(r.examples) < maxExamples && !r.isExample(key) {
			verdicts := append([]bool(nil), r.verdicts...)
			r.examples = append(r.examples, Example{at.UTC(), string(key), verdicts})
		}
		return
	}
}

func (r *Replay) isExample(key []byte) bool {
	for _, e := range r.examples {
		if e.Key == string(key) {
			return true
		}
	}
	return false
}

func (c *column) step(id int32, at time.Time, now int64) (allowed bool, err error) {
	cell := c.cells.at(id)
	next, result, err := c.policy.Step(c.spare[:0], cell.state, at, 0)
	if err != nil {
		return false, err
	}
	c.spare = next
	if result.Allowed {
		cell.keep(next)
	}
	c.note(cell, now, &result)
	return result.Allowed, nil
}

// note counts a decision for one key.
func (c *column) note(cell *cell, now int64, result *algo.Result) {
	if !result.Allowed {
		cell.denied++
		c.deny(result.RetryAfter)
		return
	}
	c.allowed++
	if result.Paid == 0 { // another rule denied the request
		return
	}
	admitted := result.Paid
	if c.inRequests {
		admitted = 1
	}
	c.worst = max(c.worst, cell.window.add(now, admitted, c.period))
}

func (c *column) deny(wait time.Duration) {
	c.denied++
	if wait == algo.Never {
		c.never++
	} else {
		c.longest = max(c.longest, wait)
	}
}

// cell has the state and the counts of one key under one policy.
type cell struct {
	state  []byte
	denied int64
	window window
}

func (c *cell) keep(state []byte) {
	if cap(c.state) < len(state) {
		c.state = make([]byte, 0, len(state))
	}
	c.state = append(c.state[:0], state...)
}

// table has the cells of a policy by key number. It grows by blocks, so cells never move.
type table struct {
	blocks [][]cell
}

const blockSize = 256

func (t *table) at(id int32) *cell { return &t.blocks[id/blockSize][id%blockSize] }

func (t *table) grow() {
	last := len(t.blocks) - 1
	if last < 0 || len(t.blocks[last]) == blockSize {
		t.blocks = append(t.blocks, make([]cell, 0, blockSize))
		last++
	}
	t.blocks[last] = append(t.blocks[last], cell{})
}
