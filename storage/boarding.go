package storage

import "slices"

// boarding is a trip being put together.
type boarding struct {
	queue  *queue
	groups []*group
	calls  int
	keys   int // of the groups
	share  int // of the keys
}

// board takes along groups that have rested, then the calls that wait, as long as
// there is room.
func (b *boarding) board() []*group {
	b.queue.trips++
	b.share = b.queue.share()
	b.groups = make([]*group, 0, min(b.queue.shared, len(b.queue.resting)+len(b.queue.waiting)))
	b.boardResting()
	b.boardWaiting()
	return slices.DeleteFunc(b.groups, func(g *group) bool { return len(g.calls) == 0 })
}

func (b *boarding) boardResting() {
	// Some may lose every time: they leave seats to those who wait.
	left := min(b.share/2, b.queue.shared/2, len(b.queue.waiting)-b.queue.ghosts)
	kept := b.queue.resting[:0]
	for _, g := range b.queue.resting {
		switch {
		case !b.queue.stay(g):
		case b.keys+left < b.share && len(b.groups)+left < b.queue.shared:
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
		if b.calls >= maxFolded || b.isFull() && i >= maxFolded {
			kept = append(kept, waiting[i:]...)
			break
		}
		switch {
		case c.left:
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
	b.keys += len(g.holds)
}

// isFull reports whether there is no room for another group.
func (b *boarding) isFull() bool {
	return b.keys >= b.share || len(b.groups) >= b.queue.shared
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
		if b.isFull() {
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
			b.keys++
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
