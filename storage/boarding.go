package storage

import "slices"

// boarding is a trip being put together.
type boarding struct {
	queue  *queue
	groups []*group
	calls  int
	passed map[string]struct{} // keys of calls that must wait, and so must those behind them
}

// board takes along groups that have rested, then the calls that wait, as long as
// there is room.
func (b *boarding) board() []*group {
	b.queue.trips++
	b.boardResting()
	b.boardWaiting()
	return slices.DeleteFunc(b.groups, func(g *group) bool { return len(g.calls) == 0 })
}

func (b *boarding) boardResting() {
	kept := b.queue.resting[:0]
	for _, g := range b.queue.resting {
		switch {
		case !b.queue.stay(g):
		case len(b.groups) < b.queue.shared:
			b.take(g)
			b.calls += len(g.calls)
		default:
			kept = append(kept, g)
		}
	}
	clear(b.queue.resting[len(kept):])
	b.queue.resting = kept
}

func (b *boarding) boardWaiting() {
	waiting := b.queue.waiting
	kept := waiting[:0]
	for i, c := range waiting {
		if b.calls >= maxFolded {
			kept = append(kept, waiting[i:]...)
			break
		}
		switch {
		case c.left:
		case b.seat(c):
			b.calls++
		default:
			kept = append(kept, c)
			b.pass(c)
		}
	}
	clear(waiting[len(kept):])
	b.queue.waiting = kept
}

func (b *boarding) take(g *group) {
	g.trip = b.queue.trips
	b.groups = append(b.groups, g)
}

func (b *boarding) pass(c *call) {
	if b.passed == nil {
		b.passed = make(map[string]struct{})
	}
	for _, key := range c.keys {
		b.passed[key] = struct{}{}
	}
}

// seat finds the call a place: in the group of its keys, which become one if they
// are several, or in a new one. It reports whether there is any.
func (b *boarding) seat(c *call) bool {
	var host *group
	for _, key := range c.keys {
		if _, passed := b.passed[key]; passed {
			return false
		}
		p, busy := b.queue.places[key]
		if !busy {
			continue
		}
		if p.group.trip != b.queue.trips || p.group.closed || c.apart || !b.queue.combining {
			return false
		}
		if host == nil {
			host = p.group
		}
	}
	if host == nil {
		if len(b.groups) >= b.queue.shared {
			return false
		}
		host = newGroup(c)
		host.closed = c.apart
		b.take(host)
		b.queue.seat(host)
		return true
	}
	b.join(host, c)
	return true
}

// join takes the call into host, and whatever other groups hold keys of it.
func (b *boarding) join(host *group, c *call) {
	for i, key := range c.keys {
		p, busy := b.queue.places[key]
		switch {
		case !busy:
			p = place{host, len(host.holds)}
			host.holds = append(host.holds, hold{key: key})
			b.queue.places[key] = p
		case p.group != host:
			other, before := p.group, len(host.holds)
			host.merge(other)
			other.calls, other.holds = nil, nil
			b.queue.seat(host)
			p.at += before
		}
		c.at[i] = p.at
	}
	c.group = host
	host.calls = append(host.calls, c)
	host.folded, host.fresh = false, false
}
