package httplimit

import (
	"container/list"
	"math"
	"math/bits"
	"sync"
	"time"
)

// gate holds back the requests that share one limit of a server, by what its
// responses told.
//
// credit is how many requests the server is sure to let in still: what it said was
// left, less all that it may not have counted when it said so. Responses come in
// any order, and each is taken at its worst; but all that is known of the server
// only ever grows by itself, so the best of what is known holds. When every
// request is answered nothing is uncounted, and the least that was told since the
// last such moment is left.
type gate struct {
	mu      sync.Mutex
	longest time.Duration

	inside   int       // flights that neither left nor landed
	arrivals int64     // ever
	line     list.List // of the flights that wait for their turn, in the order of arrival
	boarding int64     // flights that have their turn, and are not sent yet
	unasked  bool      // a flight was denied once more: the next turn is of one that never asked

	flying   int   // sent and not answered
	answered int64 // ever
	ticks    int64 // sent and answered, ever: an order of events

	limited bool
	credit  int64
	least   int64         // the least that was told since flying was last 0
	lost    int64         // how many had no response since then
	grows   time.Time     // when there is one more than credit
	grown   int64         // of ticks, when grows was set
	renewed time.Time     // when all is there again, whatever was not answered
	window  time.Duration // in which all comes back, as far as is known
	stale   time.Time     // when the limit may be one of other routes, or of the past, unless it is told again

	pause    time.Time // nothing before
	resumed  int64     // sent since then
	failures int       // denials in a row that did not say for how long
	failed   int64     // of ticks, when failures was last counted up
	before   int64     // likewise, the time before that
}

func newGate(longest time.Duration) *gate {
	return &gate{longest: longest, least: math.MaxInt64}
}

// idle reports whether the gate may be forgotten. Failures are remembered for as
// long as the longest stop: what fails again after that may begin anew.
func (g *gate) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, known := time.Now(), g.pause.Add(g.slope())
	if g.failures > 0 {
		known = known.Add(g.longest)
	}
	return g.inside == 0 && !now.Before(known) && (!g.limited || !now.Before(g.renewed))
}

// opens is when a flight may be sent, as far as is known now, if so many others are
// sent before it.
func (g *gate) opens(now time.Time, others int64) time.Time {
	switch credit := g.credit - others; {
	case now.Before(g.pause):
		return g.pause
	case !g.limited, credit > 0:
		return g.resumes(now, others)
	case credit == 0:
		return later(g.resumes(now, others), g.grows)
	case others > 0:
		return now.Add(g.window) // as spend has it for the last of them
	}
	return g.renewed
}

// resumes is opens as far as the last stop goes. What waited while that lasted would be a
// burst: so one is sent first, then in each step as many again as before, and after the last
// of the steps any number.
func (g *gate) resumes(now time.Time, others int64) time.Time {
	const steps = 10
	doublings := min(bits.Len64(uint64(g.resumed+others)), steps)
	return later(now, g.pause.Add(g.slope()*time.Duration(doublings)/steps))
}

// slope is how long it takes until any number is sent.
func (g *gate) slope() time.Duration { return min(time.Second, g.longest) }

// certain reports whether no news can bring forward when the gate opens: the server
// has stopped all, or has nothing to answer.
func (g *gate) certain(now time.Time) bool {
	return g.pause.After(now) || g.flying == 0 && g.boarding == 0
}

// spend takes from the credit for a flight that is sent now.
func (g *gate) spend(now time.Time) {
	if g.credit > 0 {
		g.credit--
		return
	}
	// That was the one by which the credit grew. When there is another, its
	// answer tells; without one, only that all is there after a window.
	g.credit = 0
	g.grows, g.grown = now.Add(g.window), g.ticks
	g.renewed = g.grows
}
