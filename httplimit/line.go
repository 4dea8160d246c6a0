package httplimit

import (
	"container/list"
	"context"
	"time"
)

// await waits for the flight's turn.
func (f *flight) await(ctx context.Context) error {
	g := f.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	place := g.queue(f)
	defer g.unqueue(place)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := time.Now()
		at, first := g.opens(now, g.boarding), g.line.Front() == place
		switch {
		case first && !at.After(now):
			g.boarding++
			return nil
		case g.certain(now) && endsBefore(ctx, at):
			return &heldBack{by: "the server", wait: at.Sub(now)}
		}
		f.wait(ctx, first, at.Sub(now))
	}
}

// queue puts the flight in line. One that had its turn and yielded is back in front of
// those who came after it.
func (g *gate) queue(f *flight) *list.Element {
	before := g.line.Back()
	for before != nil && before.Value.(*flight).arrival > f.arrival {
		before = before.Prev()
	}
	if before == nil {
		return g.line.PushFront(f)
	}
	return g.line.InsertAfter(f, before)
}

func (g *gate) unqueue(place *list.Element) {
	first := g.line.Front() == place
	g.line.Remove(place)
	if next := g.line.Front(); first && next != nil {
		next.Value.(*flight).wake()
	}
}

func (f *flight) wake() {
	select {
	case f.news <- struct{}{}:
	default: // it has yet to hear of the last
	}
}

// wait sleeps without the lock, until there is news. The first in line wakes when the
// gate opens, too, and those behind when they are the first.
func (f *flight) wait(ctx context.Context, first bool, opens time.Duration) {
	f.gate.mu.Unlock()
	defer f.gate.mu.Lock()
	var open <-chan time.Time
	if first {
		timer := time.NewTimer(opens)
		defer timer.Stop()
		open = timer.C
	}
	select {
	case <-f.news:
	case <-open:
	case <-ctx.Done():
	}
}

// endsBefore reports whether ctx is sure to end before at.
func endsBefore(ctx context.Context, at time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && at.After(deadline)
}

// announce wakes those whom a change concerns: the first in line, and all while the gate is
// closed for certain, which may be for longer than they have.
func (g *gate) announce(now time.Time) {
	all := g.opens(now, g.boarding).After(now) && g.certain(now)
	for place := g.line.Front(); place != nil; place = place.Next() {
		place.Value.(*flight).wake()
		if !all {
			return
		}
	}
}
