package storage

import "slices"

// boarding is a trip being put together.
type boarding struct {
	queue  *queue
	groups []*group
	calls  int
	keys   int     // of the groups
	share  int     // of the keys
	lines  []*line // of the groups: who waits there may come along
}

// board takes along groups that have rested, then calls that are ready, as long as there is
// room; and then those that wait for the same keys.
func (b *boarding) board() []*group {
	b.queue.trips++
	b.share = b.queue.share()
	b.groups = make([]*group, 0, min(b.queue.shared, len(b.queue.resting)+b.queue.waiting))
	b.boardResting()
	b.boardReady()
	b.boardOthers()
	return slices.DeleteFunc(b.groups, func(g *group) bool { return len(g.calls) == 0 })
}

func (b *boarding) boardResting() {
	// Some may lose every time: they leave seats to those who wait.
	left := min(b.share/2, b.queue.shared/2, b.queue.waiting)
	kept := b.queue.resting[:0]
	for _, g := range b.queue.resting {
		switch {
		case !b.queue.stay(g):
		case b.keys+left < b.share && len(b.groups)+left < b.queue.shared:
			b.bring(g)
			b.calls += len(g.calls)
			for i := range g.holds {
				b.ask(b.queue.lines[g.holds[i].key])
			}
		default:
			kept = append(kept, g)
		}
	}
	clear(b.queue.resting[len(kept):])
	b.queue.resting = kept
}

// boardReady gives each call that is ready a group of its own.
func (b *boarding) boardReady() {
	for b.queue.ready.first != nil && !b.isFull() {
		c := b.queue.ready.first.call
		g := c.separate()
		g.closed = c.apart
		b.bring(g)
		b.queue.claim(g)
		b.seated(c)
	}
}

// boardOthers lets those who wait for the keys of groups join them: one of each line in turn,
// so that no crowd takes the seats of another.
func (b *boarding) boardOthers() {
	var asked []*line
	for b.queue.combining && len(b.lines) > 0 && b.calls < maxFolded {
		asked, b.lines = b.lines, asked[:0]
		for _, l := range asked {
			l.asked = 0
			if l.first != nil && b.calls < maxFolded && b.admits(l.first.call) {
				c := l.first.call
				b.join(l.group, c)
				b.seated(c)
			}
		}
	}
}

// ask has those who wait in a line asked along, in its turn.
func (b *boarding) ask(l *line) {
	if l.first != nil && l.asked != b.queue.trips {
		l.asked = b.queue.trips
		b.lines = append(b.lines, l)
	}
}

// admits reports whether a call can join the groups of its keys: it is the first to wait for
// any of these, and none of the groups is closed, or on another trip.
func (b *boarding) admits(c *call) bool {
	for i := range c.places {
		p := &c.places[i]
		g := p.line.group
		if p.line.first != p || g != nil && (g.closed || g.trip != b.queue.trips) {
			return false
		}
	}
	return true
}

// seated takes a call that has joined out of its lines, and asks those behind it.
func (b *boarding) seated(c *call) {
	b.calls++
	b.queue.stepOut(c)
	for i := range c.places {
		b.ask(c.places[i].line)
	}
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

// join takes the call into host, and whatever other groups hold keys of it.
func (b *boarding) join(host *group, c *call) {
	for i, key := range c.keys {
		l := c.places[i].line
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
