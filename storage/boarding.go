package storage

import "slices"

// boarding is a trip being put together.
type boarding struct {
	queue  *queue
	groups []*group
	calls  int
	share  int // of the groups
}

// board takes along groups that have rested, then the calls that wait, as long as
// there is room.
func (b *boarding) board() []*group {
	b.queue.trips++
	b.share = b.queue.share()
	b.groups = make([]*group, 0, min(b.share, len(b.queue.resting)+len(b.queue.waiting)))
	b.boardResting()
	b.boardWaiting()
	return slices.DeleteFunc(b.groups, func(g *group) bool { return len(g.calls) == 0 })
}

func (b *boarding) boardResting() {
	kept := b.queue.resting[:0]
	for _, g := range b.queue.resting {
		switch {
		case !b.queue.stay(g):
		case len(b.groups) < b.share:
			b.bring(g)
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
		if b.calls >= maxFolded || len(b.groups) >= b.share && i >= maxFolded {
			kept = append(kept, waiting[i:]...)
			break
		}
		switch {
		case c.left:
			b.queue.stepOut(c)
			b.queue.ghosts--
		case b.seat(c):
			b.queue.stepOut(c)
			b.calls++
		default:
			kept = append(kept, c)
			b.pass(c)
		}
	}
	clear(waiting[len(kept):])
	b.queue.waiting = kept
}

func (b *boarding) bring(g *group) {
	g.trip = b.queue.trips
	b.groups = append(b.groups, g)
}

// pass leaves a call behind, and with it all behind it who need its keys.
func (b *boarding) pass(c *call) {
	for _, l := range c.lines {
		l.passed = b.queue.trips
	}
}

// seat finds the call a place: in the group of its keys, which become one if they
// are several, or in a new one. It reports whether there is any.
func (b *boarding) seat(c *call) bool {
	var host *group
	for _, l := range c.lines {
		switch {
		case l.passed == b.queue.trips:
			return false
		case l.group == nil:
		case l.group.trip != b.queue.trips || l.group.closed || c.apart || !b.queue.combining:
			return false
		case host == nil:
			host = l.group
		}
	}
	if host == nil {
		if len(b.groups) >= b.share {
			return false
		}
		host = c.separate()
		host.closed = c.apart
		b.bring(host)
		b.queue.claim(host)
		return true
	}
	b.join(host, c)
	return true
}

// join takes the call into host, and whatever other groups hold keys of it.
func (b *boarding) join(host *group, c *call) {
	for i, key := range c.keys {
		l := b.queue.lines[key]
		switch {
		case l.group == nil:
			l.group, l.at = host, len(host.holds)
			host.holds = append(host.holds, hold{key: key})
		case l.group != host:
			other := l.group
			host.merge(other)
			other.calls, other.holds = nil, nil
			b.queue.claim(host)
		}
		c.at[i] = l.at
	}
	c.group = host
	host.calls = append(host.calls, c)
	host.fresh = false
}
