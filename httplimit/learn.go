package httplimit

import (
	"math"
	"net/http"
	"time"
)

// land learns from the response, which is nil if there is none.
func (f *flight) land(response *http.Response) {
	var l left
	told := false
	if response != nil {
		l, told = readLimit(response.Header) // which may be long
	}
	g := f.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.flying--
	g.inside--
	g.ticks++
	if response == nil {
		g.lost++
	} else {
		g.heed(now, f, response, l)
		g.learn(now, f, l, told)
	}
	g.answered++
	if g.flying == 0 {
		g.settle()
	}
	g.announce(now)
}

// settle counts what is left when nothing is uncounted.
func (g *gate) settle() {
	if g.least != math.MaxInt64 {
		g.credit = max(g.credit, g.least-g.lost)
	}
	g.least, g.lost = math.MaxInt64, 0
}

// toldFor is how long a limit is believed at least of which the answers tell no more: a
// server may tell it on some routes only, or when it denies.
const toldFor = time.Minute

// learn takes in what is left.
func (g *gate) learn(now time.Time, f *flight, l left, told bool) {
	switch {
	case !told && !now.Before(g.stale):
		g.limited = false
		return
	case !told:
		g.credit++ // what tells nothing of limits was not under any
		return
	}
	if !g.limited {
		g.limited, g.credit = true, math.MinInt64 // so that what is told is taken
	}
	uncounted := g.answered - f.answered + int64(g.flying)
	g.credit = min(max(g.credit, l.remaining-uncounted), l.remaining)
	g.least = min(g.least, l.remaining)
	wait := max(l.wait, time.Second) // that told of no time is asked again soon
	g.window = min(max(l.window, wait), g.longest)
	g.renewed = now.Add(g.window)
	g.stale = now.Add(max(g.window, toldFor))
	// A request that was sent after the last word on it knows better. One that
	// was on its way then may be older news, and is heeded only if it is worse.
	if grows := now.Add(min(wait, g.longest)); f.tick >= g.grown || grows.After(g.grows) {
		g.grows, g.grown = grows, g.ticks
	}
}

// heed stops for as long as a denial says: by its Retry-After, else by what it
// tells of the limit, else for twice as long each time, until there is no denial.
func (g *gate) heed(now time.Time, f *flight, response *http.Response, l left) {
	if code := response.StatusCode; code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable {
		if f.tick > g.before { // else it is older than the denials, and was slow
			g.failures = 0
		}
		return
	}
	wait, ok := readRetryAfter(now, response.Header)
	if !ok {
		wait = l.wait
	}
	if !ok && wait == 0 {
		wait = g.backOff(f)
	}
	if until := now.Add(min(wait, g.longest)); wait > 0 && until.After(g.pause) {
		g.pause, g.resumed = until, 0
	}
}

// backOff is how long to stop for a denial that does not say. Only one of a request
// that was sent after the last such denial tells that the stop was too short: many
// that were on their way together are one failure.
func (g *gate) backOff(f *flight) time.Duration {
	if f.tick > g.failed {
		g.failures++
		g.before, g.failed = g.failed, g.ticks
	}
	return time.Second << min(max(g.failures-1, 0), 30)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
