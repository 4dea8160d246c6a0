package backtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/costed"
)

// Replay runs requests through policies and counts the results. Only one goroutine may use it.
type Replay struct {
	columns  []column
	ids      keyNumbers
	timeline Timeline
	report   Report // without what Report adds
	allowed  []bool // by each policy, for the latest request
}

// column has one policy and its counts.
type column struct {
	Outcome // without the lists of keys
	limit   algo.Limit
	cells   []cell // by the number of the key
	spare   []byte
}

// New returns a Replay of the policies.
func New(policies ...costed.Policy) *Replay {
	r := &Replay{
		ids:      make(keyNumbers),
		timeline: newTimeline(len(policies)),
		allowed:  make([]bool, len(policies)),
	}
	for _, p := range policies {
		r.columns = append(r.columns, newColumn(p))
	}
	return r
}

func newColumn(p costed.Policy) column {
	limit := p.Limit()
	return column{Outcome: Outcome{Policy: p, Bound: p.Bound(limit.Period)}, limit: limit}
}

// Add replays one request. Its time must not be before the previous request's.
func (r *Replay) Add(at time.Time, key []byte) error {
	r.timeline.at(at)
	id := r.ids.of(key)
	for i := range r.columns {
		allowed, err := r.columns[i].step(id, at)
		if err != nil {
			return fmt.Errorf("backtest: key %q under %v: %w", key, r.columns[i].Policy, err)
		}
		r.allowed[i] = allowed
		r.timeline.count(i, allowed)
	}
	r.report.Requests++
	if slices.Contains(r.allowed, true) && slices.Contains(r.allowed, false) {
		r.disagree(at, string(key))
	}
	return nil
}

// disagree counts a request on which the policies disagree.
func (r *Replay) disagree(at time.Time, key string) {
	r.report.Disagreements++
	known := slices.ContainsFunc(r.report.Examples, func(e Example) bool { return e.Key == key })
	if len(r.report.Examples) < maxExamples && !known {
		r.report.Examples = append(r.report.Examples, Example{at.UTC(), key, slices.Clone(r.allowed)})
	}
}

func (c *column) step(id uint32, at time.Time) (allowed bool, err error) {
	cell := element(&c.cells, id)
	next, result, err := c.Policy.Step(c.spare[:0], cell.state, at, c.Policy.Cost)
	if err != nil {
		return false, err
	}
	c.spare = next
	cell.state = append(cell.state[:0], next...) // also after a denial, which can begin a penalty
	c.note(cell, at, &result)
	return result.Allowed, nil
}

// note counts a decision for one key.
func (c *column) note(cell *cell, at time.Time, result *algo.Result) {
	c.Counts.count(result)
	if !result.Allowed {
		cell.denied++
		return
	}
	if result.Paid == 0 { // another rule denied the request, or the charge was given back
		return
	}
	c.Admitted = max(c.Admitted, cell.window.Add(c.limit, algo.Instant(at), result.Paid))
}

// cell has the state and the counts of one key under one policy.
type cell struct {
	state  []byte
	denied int64
	window Window
}

// keyNumbers numbers keys in the order of their first use. A comparison has one for the keys of all
// rules and for the clients, because these are often the same texts.
type keyNumbers map[string]uint32

func (k keyNumbers) of(key []byte) uint32 {
	n, known := k[string(key)]
	if !known {
		n = uint32(len(k))
		k[string(key)] = n
	}
	return n
}

// element returns the element of a number. It makes the slice longer if necessary.
func element[T any](s *[]T, number uint32) *T {
	if missing := int(number) + 1 - len(*s); missing > 0 {
		*s = append(*s, make([]T, missing)...)
	}
	return &(*s)[number]
}
