package storage

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// DefaultRelearn is how long a [ServerClock] goes by one reading of its server.
const DefaultRelearn = 10 * time.Second

// drift: the local clock may run faster or slower than the server's by 1 part in so many.
// That is 500 in a million, as far as NTP slews a clock.
const drift = 2000

// ServerClock tells the time of a store's server without asking it each time:
// it learns by how much the local clock differs, and asks again now and then.
// Processes whose clocks disagree decide alike by it. Server is required, and is a store
// that is a [Clock], on PostgreSQL or Redis. It is to be used by pointer, by any number of
// goroutines and limiters of one server.
//
//	clock := &storage.ServerClock{Server: store}
//
// # How far it can be wrong
//
// A reading is the server's time at some instant of the round trip; taken for
// the middle, it is wrong by at most half the round trip. To that comes what
// the clocks drift apart until the next reading, at most 1 part in 2000 of the
// time since; see [ServerClock.Error]. With readings over a millisecond every
// 10 s that is 0.5 ms after a reading and 5.5 ms before the next. Two processes
// disagree by no more than the sum of their errors.
//
// A reading that agrees with what is known narrows it down, so that a slow one
// spoils nothing. One that contradicts it takes its place at once: the server's
// clock was set, or another server took over. Only then, and within the error,
// does this clock step back. Until that reading, at most Relearn later, it goes
// by the old time; so it does when this machine slept, since Go's monotonic
// clock sleeps too. Where a client asks any server of several, as a Redis
// Cluster's does, their clocks are taken to agree.
type ServerClock struct {
	Server Clock
	// Relearn is how long to go by one reading; 0 means DefaultRelearn.
	Relearn time.Duration
	// Local is the clock of this process, best a monotonic one; nil is time.Now.
	Local func() time.Time

	known atomic.Pointer[estimate]
}

// estimate is what is known of the server's time.
type estimate struct {
	local  time.Time // an instant by the local clock
	server time.Time // the same instant by the server's, give or take margin
	margin time.Duration
	asked  time.Time // when the server was last asked, by the local clock, answer or not
}

// Now is the server's time, worked out without asking it. Before the first
// reading it is the local time.
func (c *ServerClock) Now() time.Time {
	now, k := c.local(), c.known.Load()
	if k == nil {
		return now
	}
	return k.at(now)
}

// Error is by how much Now may be wrong, either way; 0 means that nothing is
// known.
func (c *ServerClock) Error() time.Duration {
	k := c.known.Load()
	if k == nil {
		return 0
	}
	return k.marginAt(c.local())
}

// Due reports whether Learn would ask the server.
func (c *ServerClock) Due() bool { return c.due(c.known.Load(), c.local()) }

// Learn asks the server for its time if a reading is due; else it returns nil
// at once.
//
// The first reading is tried until it succeeds; the error, which implies
// [ErrNotApplied], is [ErrUnavailable] or [ErrContended] when ctx ends first, or
// one that trying again cannot help. A later reading is tried once, by one
// caller, in at most half of the time that ctx leaves. If it fails, the clock
// goes on by what it knew, Learn returns nil, and the next reading is due after
// Relearn.
func (c *ServerClock) Learn(ctx context.Context) error {
	k, now := c.known.Load(), c.local()
	switch {
	case k == nil:
		return c.first(ctx)
	case c.due(k, now) && c.known.CompareAndSwap(k, k.askedAt(now)):
		c.again(ctx)
	}
	return nil
}

func (c *ServerClock) first(ctx context.Context) error {
	var last error
	for pause := (backoff{}); ; {
		err := c.read(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // what ctx broke off tells less than what was before
			last = err
		}
		if !errors.Is(last, ErrUnavailable) && !errors.Is(last, ErrContended) {
			return NotApplied(fmt.Errorf("storage: the time of the server: %w", last))
		}
		if err := pause.wait(ctx, last); err != nil {
			return NotApplied(fmt.Errorf("storage: the time of the server: %w: %w", last, err))
		}
	}
}

func (c *ServerClock) again(ctx context.Context) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	_ = c.read(ctx) // what is known stands
}

// read asks the server once.
func (c *ServerClock) read(ctx context.Context) error {
	sent := c.local()
	server, err := c.Server.Now(ctx)
	if err != nil {
		return err
	}
	received := c.local()
	if received.Before(sent) {
		return fmt.Errorf("%w: the local clock was set back while the server's was read", ErrUnavailable)
	}
	half := (received.Sub(sent) + 1) / 2
	e := &estimate{local: received, server: server.Round(0).Add(half), margin: half, asked: sent}
	for {
		k := c.known.Load()
		if c.known.CompareAndSwap(k, e.given(k)) {
			return nil
		}
	}
}

func (c *ServerClock) local() time.Time {
	if c.Local == nil {
		return time.Now()
	}
	return c.Local()
}

func (c *ServerClock) due(k *estimate, now time.Time) bool {
	if k == nil {
		return true
	}
	relearn := c.Relearn
	if relearn <= 0 {
		relearn = DefaultRelearn
	}
	since := now.Sub(k.asked)
	return since >= relearn || since < 0
}

func (k *estimate) at(local time.Time) time.Time { return k.server.Add(local.Sub(k.local)) }

func (k *estimate) marginAt(local time.Time) time.Duration {
	return k.margin + local.Sub(k.local).Abs()/drift
}

func (k *estimate) askedAt(local time.Time) *estimate {
	asked := *k
	asked.asked = local
	return &asked
}

// given is what a new reading and an older estimate say together: the server's
// time lies between the later of their earliest times and the earlier of their
// latest. Where there is nothing between, the new reading is right.
func (e *estimate) given(older *estimate) *estimate {
	if older == nil {
		return e
	}
	old, margin := older.at(e.local), older.marginAt(e.local)
	earliest := later(e.server.Add(-e.margin), old.Add(-margin))
	latest := earlier(e.server.Add(e.margin), old.Add(margin))
	between := latest.Sub(earliest)
	if between < 0 {
		return e
	}
	half := (between + 1) / 2
	return &estimate{local: e.local, server: earliest.Add(half), margin: half, asked: e.asked}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
