package storage

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// queued sees the call of g through, together with those of others.
func (e *Engine) queued(ctx context.Context, c *call, g *group) (How, error) {
	c.done = make(chan struct{}, 1)
	flies, err := e.queue.enter(c, g)
	if err != nil {
		return How{}, err
	}
	if flies {
		e.solo(ctx, c, g)
		select {
		case <-c.done:
			return c.answer()
		default:
		}
	}
	return e.await(ctx, c)
}

// await waits for the answer, or as long as the caller has time.
func (e *Engine) await(ctx context.Context, c *call) (How, error) {
	timer := time.NewTimer(time.Until(c.deadline))
	defer timer.Stop()
	var ended error
	select {
	case <-c.done:
		return c.answer()
	case <-ctx.Done():
		ended = ctx.Err()
	case <-timer.C:
		ended = context.DeadlineExceeded
	}
	late, flying, how, last := e.queue.leave(c, time.Now())
	switch {
	case late:
		<-c.done
		return c.answer()
	case flying:
		return how, unknown(ended)
	}
	return how, exhausted(last, how.Attempts, ended)
}

// solo is a flight of one call, in the hands of its caller.
func (e *Engine) solo(ctx context.Context, c *call, g *group) {
	ctx, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	defer func() { e.launch(e.land([]*group{g}, false)) }() // also if the store panics, or decide ends the goroutine
	e.fly(patiently(ctx), []*group{g})
}

// launch gives flights a goroutine each.
func (e *Engine) launch(flights [][]*group) {
	for _, groups := range flights {
		go e.carry(groups)
	}
}

// carry flies, and goes on for as long as others wait.
func (e *Engine) carry(groups []*group) {
	done := false
	defer func() {
		if !done { // a decide has ended this goroutine
			go e.carry(groups)
		}
	}()
	for {
		ctx, cancel := context.WithDeadline(context.Background(), groups[0].until)
		e.fly(patiently(ctx), groups)
		cancel()
		next := e.land(groups, e.dear || slices.ContainsFunc(groups, (*group).isCrowd))
		if len(next) == 0 {
			done = true
			return
		}
		e.launch(next[1:])
		groups = next[0]
	}
}

// land ends a flight, and returns those that can take off. One that lingers lets
// those who were told come back first, if they do so at once: they then take off
// together, where the first would have gone alone and the others after it. That is
// worth it where round trips are dear; and where many want one key, because they
// have to share, and other processes may be after it too.
func (e *Engine) land(groups []*group, linger bool) [][]*group {
	l := e.queue.land(groups)
	tell(l.finished)
	for _, g := range l.lost {
		go e.search(g)
	}
	for _, g := range l.tired {
		time.AfterFunc(g.rest, func() { e.launch(e.queue.wake(g)) })
	}
	if linger {
		runtime.Gosched()
	}
	return e.queue.clearWay(&l)
}

// search looks for a group that was lost.
func (e *Engine) search(g *group) {
	ctx, cancel := context.WithDeadline(context.Background(), g.until)
	defer cancel()
	e.resolve(ctx, g)
	finished, next := e.queue.found(g)
	tell(finished)
	e.launch(next)
}

func tell(finished []*call) {
	for _, c := range finished {
		c.done <- struct{}{}
	}
}
