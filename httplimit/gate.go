package httplimit

import (
	"context"
	"math"
	"net/http"
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
	changed chan struct{} // closed when there is something new

	flying   int   // sent and not answered
	answered int64 // ever
	inside   int   // flying, or about to pass
	ticks    int64 // sent and answered, ever: an order of events

	limited bool
	credit  int64
	least   int64         // the least that was told since flying was last 0
	lost    int64         // how many had no response since then
	grows   time.Time     // when there is one more than credit
	grown   int64         // of ticks, when grows was set
	renewed time.Time     // when all is there again, whatever was not answered
	window  time.Duration // in which all comes back, as far as is known

	pause    time.Time // nothing before
	failures int       // denials in a row that did not say for how long
	failed   int64     // of ticks, when failures was last counted up
}

func newGate(longest time.Duration) *gate {
	return &gate{longest: longest, changed: make(chan struct{}), least: math.MaxInt64}
}

// flight is one request that was let through.
type flight struct {
	gate     *gate
	tick     int64 // of the gate, when it was sent
	answered int64 // likewise
}

func (g *gate) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside++
}

// leave is for a request that entered and will not be sent.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
}

// idle reports whether the gate may be forgotten. Failures are remembered for as
// long as the longest stop: what fails again after that may begin anew.
func (g *gate) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, known := time.Now(), g.pause
	if g.failures > 0 {
		known = known.Add(g.longest)
	}
	return g.inside == 0 && !now.Before(known) && (!g.limited || !now.Before(g.renewed))
}

// pass waits until a request may be sent.
func (g *gate) pass(ctx context.Context) (*flight, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.await(ctx); err != nil {
		return nil, err
	}
	return g.send(time.Now()), nil
}

// ready waits until a request could be sent, and sends none.
func (g *gate) ready(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.await(ctx)
}

// tryPass passes if that needs no wait.
func (g *gate) tryPass() (f *flight, passed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.opens(now).After(now) {
		return nil, false
	}
	return g.send(now), true
}

// await returns when the gate is open, with the lock as it was called.
func (g *gate) await(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := time.Now()
		at := g.opens(now)
		if !at.After(now) {
			return nil
		}
		// No news can bring it forward while the server has stopped all, or has
		// nothing to answer.
		if deadline, ok := ctx.Deadline(); ok && at.After(deadline) && (g.flying == 0 || g.pause.After(now)) {
			return &heldBack{by: "the server", wait: at.Sub(now)}
		}
		g.wait(ctx, at.Sub(now))
	}
}

// opens is when the next request may be sent, as far as is known now.
func (g *gate) opens(now time.Time) time.Time {
	switch {
	case now.Before(g.pause):
		return g.pause
	case !g.limited || g.credit > 0:
		return now
	case g.credit == 0:
		return g.grows
	}
	return g.renewed
}

// send counts a request that is sent now.
func (g *gate) send(now time.Time) *flight {
	g.flying++
	g.ticks++
	if g.limited {
		g.spend(now)
	}
	return &flight{g, g.ticks, g.answered}
}

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

// wait sleeps without the lock, until there is news or d is over.
func (g *gate) wait(ctx context.Context, d time.Duration) {
	changed := g.changed
	g.mu.Unlock()
	defer g.mu.Lock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// land learns from the response, which is nil if there is none.
func (f *flight) land(response *http.Response) {
	g := f.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flying--
	g.inside--
	g.ticks++
	if response == nil {
		g.lost++
	} else {
		now := time.Now()
		l, told := readLimit(response.Header)
		g.heed(now, f, response, l)
		g.learn(now, f, l, told)
	}
	g.answered++
	if g.flying == 0 {
		g.settle()
	}
	close(g.changed)
	g.changed = make(chan struct{})
}

// settle counts what is left when nothing is uncounted.
func (g *gate) settle() {
	if g.least != math.MaxInt64 {
		g.credit = max(g.credit, g.least-g.lost)
	}
	g.least, g.lost = math.MaxInt64, 0
}

// learn takes in what is left.
func (g *gate) learn(now time.Time, f *flight, l left, told bool) {
	if !told {
		if g.limited {
			g.credit++ // what tells nothing of limits was not under any
		}
		return
	}
	if !g.limited {
		g.limited, g.credit = true, math.MinInt64
	}
	uncounted := g.answered - f.answered + int64(g.flying)
	g.credit = min(max(g.credit, l.remaining-uncounted), l.remaining)
	g.least = min(g.least, l.remaining)
	wait := max(l.wait, time.Second) // that told of no time is asked again soon
	g.window = min(max(l.window, wait), g.longest)
	g.renewed = now.Add(g.window)
	// A request that was sent after the last word on it knows better. One that
	// was on its way then may be older news, and is heeded only if it is worse.
	if grows := now.Add(min(wait, g.longest)); f.tick >= g.grown || grows.After(g.grows) {
		g.grows, g.grown = grows, g.ticks
	}
}

// heed stops for as long as a denial says: by its Retry-After, else by what it
// tells of the limit, else for ever longer until there is no denial.
func (g *gate) heed(now time.Time, f *flight, response *http.Response, l left) {
	if code := response.StatusCode; code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable {
		g.failures = 0
		return
	}
	wait, ok := readRetryAfter(now, response.Header)
	if !ok {
		wait = l.wait
	}
	if !ok && wait == 0 {
		wait = g.backOff(f)
	}
	g.pause = later(g.pause, now.Add(min(wait, g.longest)))
}

// backOff is how long to stop for a denial that does not say. Only one of a request
// that was sent after the last such denial tells that the stop was too short: many
// that were on their way together are one failure.
func (g *gate) backOff(f *flight) time.Duration {
	if f.tick > g.failed {
		g.failures++
		g.failed = g.ticks
	}
	return time.Second << min(max(g.failures-1, 0), 30)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
