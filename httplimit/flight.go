package httplimit

import (
	"context"
	"time"
)

// flight is a request from its arrival at the gate until its answer. It waits in line
// for its turn, and has that until it yields or is sent. As many have their turn at a time
// as the gate would let through now, so that a limiter is asked for no others.
type flight struct {
	gate    *gate
	arrival int64
	news    chan struct{} // wakes it in line; has room for one
	until   time.Time     // others pass it: the limiter denied it
	denied  denied        // then

	tick     int64 // of the gate, when it was sent
	answered int64 // likewise
}

// enter makes the flight of a request, which must leave or land.
func (g *gate) enter() *flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside++
	g.arrivals++
	return &flight{gate: g, arrival: g.arrivals, news: make(chan struct{}, 1)}
}

// yield ends the turn of a flight that is not sent now.
func (f *flight) yield() {
	g := f.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.boarding--
	g.unasked = !f.until.IsZero()
	g.announce(time.Now())
}

// sendUnlessOver is send for a request whose context may have ended while it had its turn:
// that would be spent on nothing.
func (f *flight) sendUnlessOver(ctx context.Context) (bool, error) {
	if ctx.Err() != nil {
		f.yield()
		return false, newNotSent(ctx, f.denied.by())
	}
	return f.send(), nil
}

// send ends the flight's turn, and reports whether it is sent: the gate may have closed
// meanwhile.
func (f *flight) send() bool {
	g := f.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.boarding--
	if g.opens(now, 0).After(now) {
		g.announce(now)
		return false
	}
	g.flying++
	g.ticks++
	g.resumed++
	if g.limited {
		g.spend(now)
	}
	f.tick, f.answered = g.ticks, g.answered
	return true
}

// leave is for a flight that will not be sent.
func (f *flight) leave() {
	f.gate.mu.Lock()
	defer f.gate.mu.Unlock()
	f.gate.inside--
}
