package httplimit

import (
	"cmp"
	"container/list"
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/retrywait"
)

// await waits for the flight's turn.
func (f *flight) await(ctx context.Context) error {
	g := f.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	place := g.queue(f)
	defer g.unqueue(place)
	for by := f.denied.by(); ; by = cmp.Or(f.denied.by(), "the server") {
		if ctx.Err() != nil {
			return newNotSent(ctx, by)
		}
		now := time.Now()
		at, first := g.opens(now, g.boarding), g.first(now) == place
		switch {
		case first && !at.After(now):
			g.boarding++
			g.unasked = false
			return nil
		case g.certain(now) && retrywait.ExceedsDeadline(ctx, at.Sub(now)):
			return &heldBack{by: "the server", wait: at.Sub(now)}
		}
		if f.until.After(now) {
			f.wait(ctx, g.leads(f), f.until.Sub(now))
		} else {
			f.wait(ctx, first, at.Sub(now))
		}
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

// first is the place of the flight that has the next turn. Those that wait for the
// limiter are passed; and while the next is to be one that never asked, so are those that
// did, unless there is no other.
func (g *gate) first(now time.Time) (found *list.Element) {
	for place := g.line.Front(); place != nil; place = place.Next() {
		switch f := place.Value.(*flight); {
		case f.until.After(now):
		case !g.unasked || f.until.IsZero():
			return place
		case found == nil:
			found = place
		}
	}
	return found
}

func (g *gate) unqueue(place *list.Element) {
	f := g.line.Remove(place).(*flight)
	if next := g.first(time.Now()); next != nil {
		next.Value.(*flight).wake()
	}
	if next := g.leader(f.denied); next != nil {
		next.wake()
	}
}

// leader is the first in line of those who were denied alike: it watches the time for all.
func (g *gate) leader(d denied) *flight {
	if d == (denied{}) {
		return nil
	}
	for place := g.line.Front(); place != nil; place = place.Next() {
		if f := place.Value.(*flight); f.denied == d {
			return f
		}
	}
	return nil
}

func (g *gate) leads(f *flight) bool { return g.leader(f.denied) == f }

// postpone is for those who were denied like f: the limiter would deny them until then as
// well.
func (g *gate) postpone(f *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for place := g.line.Front(); place != nil; place = place.Next() {
		if other := place.Value.(*flight); other.denied == f.denied {
			other.until = later(other.until, f.until)
		}
	}
}

func (f *flight) wake() {
	select {
	case f.news <- struct{}{}:
	default: // it has yet to hear of the last
	}
}

// wait sleeps without the lock, until there is news. The first in line wakes when the
// gate opens, too, the first of those whom the limiter denied alike when that may allow it,
// and the others when they are the first.
func (f *flight) wait(ctx context.Context, timed bool, d time.Duration) {
	f.gate.mu.Unlock()
	defer f.gate.mu.Lock()
	var open <-chan time.Time
	if timed {
		timer := time.NewTimer(d)
		defer timer.Stop()
		open = timer.C
	}
	select {
	case <-f.news:
	case <-open:
	case <-ctx.Done():
	}
}

// announce wakes those whom a change concerns: the first in line, and all while the gate is
// closed for certain, which may be for longer than they have.
func (g *gate) announce(now time.Time) {
	all := g.opens(now, g.boarding).After(now) && g.certain(now)
	if first := g.first(now); first != nil {
		first.Value.(*flight).wake()
	}
	for place := g.line.Front(); all && place != nil; place = place.Next() {
		place.Value.(*flight).wake()
	}
}
