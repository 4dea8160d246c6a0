package storage

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"
)

// alone tries until the one call of g stands, or cannot, without regard to others.
func (e *Engine) alone(ctx context.Context, g *group) (How, error) {
	c := g.calls[0]
	ctx, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	for {
		e.fly(patiently(ctx), []*group{g})
		switch g.fate {
		case lost:
			e.resolve(ctx, g)
			return c.answer()
		case broken:
			return c.how, g.last
		case stood:
			return c.answer()
		}
		if err := g.pause.wait(ctx, g.last); err != nil {
			return c.how, exhausted(c.why(g.last), err)
		}
	}
}

// queued sees the call of g through, together with those of others. The caller's own
// goroutine flies it if nothing is in its way (solo); else one that the engine starts
// carries it along (carry), and the caller awaits the answer.
func (e *Engine) queued(ctx context.Context, c *call, g *group) (How, error) {
	flies, err := e.queue.enter(c, g)
	if err != nil {
		return How{}, err
	}
	if flies {
		if e.solo(ctx, c, g); c.done == nil {
			return c.answer()
		}
		select {
		case <-c.done:
			return c.answer()
		default:
			e.queue.remain(c)
		}
	}
	return e.await(ctx, c)
}

// await waits for the answer, or as long as the caller has time.
func (e *Engine) await(ctx context.Context, c *call) (How, error) {
	told, ended := overdue, context.DeadlineExceeded
	if ctx.Done() == nil { // a plain receive is cheaper
		told = <-c.done
	} else {
		select {
		case told = <-c.done:
		case <-ctx.Done():
			ended = ctx.Err()
		}
	}
	if told == answered {
		return c.answer()
	}
	l := e.queue.leave(c, time.Now())
	e.launch(l.next)
	switch {
	case l.late:
		for <-c.done != answered {
		}
		return c.answer()
	case l.flying:
		return l.how, unknown(ended)
	}
	return l.how, exhausted(l.last, ended)
}

// solo is a flight of one call, in the hands of its caller.
func (e *Engine) solo(ctx context.Context, c *call, g *group) {
	ctx, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	defer func() { // also if the store panics, or decide ends the goroutine
		if g.fate == stood {
			e.launch(e.queue.settled(g))
			return
		}
		c.expect()
		e.launch(e.land([]*group{g}, 0))
	}()
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
		if !done {
			go e.resume(groups)
		}
	}()
	calls, end := e.series()
	defer shielded(nil, end)
	for {
		shielded(groups, func() {
			ctx, cancel := context.WithDeadline(calls, groups[0].until)
			defer cancel()
			e.fly(patiently(ctx), groups)
		})
		next := e.land(groups, e.patience(groups))
		if len(next) == 0 {
			done = true
			return
		}
		e.launch(next[1:])
		groups = next[0]
	}
}

// resume is carry after its goroutine has ended: a decide has ended it, and decides
// nothing from now on; or the store has.
func (e *Engine) resume(groups []*group) {
	if !slices.ContainsFunc(groups, (*group).gone) {
		for _, g := range groups {
			g.end(errStoreGone)
		}
		e.launch(e.land(groups, 0))
		return
	}
	e.carry(groups)
}

// errStoreGone is why nobody knows what became of a call to the store.
var errStoreGone = errors.New("storage: the store has ended the goroutine that called it")

// series is what flights have in common that are carried by one goroutine.
func (e *Engine) series() (calls context.Context, end func()) {
	calls, end = context.Background(), func() {}
	if s, ok := e.store.(Series); ok {
		shielded(nil, func() { calls, end = s.Series(calls) })
	}
	return calls, end
}

// shielded makes a panic of the store the panic of every caller whose decision is
// under way: on this goroutine, which is nobody's, it would end the program.
func shielded(groups []*group, do func()) {
	defer func() {
		if p := recover(); p != nil {
			for _, g := range groups {
				g.panics(p)
			}
		}
	}()
	do()
}

// land ends a flight, and returns those that can take off. If it yields, those who were
// told come back first, provided that they do so at once: they then take off together,
// where the first would have gone alone and the others after it.
func (e *Engine) land(groups []*group, yields int) [][]*group {
	l := e.queue.land(groups)
	tell(l.finished)
	for _, g := range l.lost {
		go e.search(g)
	}
	for _, g := range l.tired {
		time.AfterFunc(g.rest, func() { e.launch(e.queue.wake(g)) })
	}
	for range yields {
		runtime.Gosched()
	}
	return e.queue.clearWay(&l)
}

// rivalry is how long others may want a key after they have been seen to change it.
const rivalry = 100 * time.Millisecond

// patience is how often a flight yields when it lands. It is worth it where round trips
// are dear, and where several groups share them; and more so where other processes want the
// same key, because then a turn at it is. Else, of one key, it is quicker to decide for some
// while the others are on their way.
func (e *Engine) patience(groups []*group) int {
	switch {
	case e.hasRivals(groups):
		return 3
	case len(groups) > 1:
		return 2
	case e.dear:
		return 1
	}
	return 0
}

// hasRivals reports whether other processes want, or lately wanted, what several
// callers want here.
func (e *Engine) hasRivals(groups []*group) bool {
	if slices.ContainsFunc(groups, func(g *group) bool { return g.isCrowd() && g.pause.conflicts > 0 }) {
		e.rivals.Store(time.Now().UnixNano())
		return true
	}
	seen := e.rivals.Load()
	return seen != 0 && time.Now().UnixNano()-seen < int64(rivalry) && slices.ContainsFunc(groups, (*group).isCrowd)
}

// search looks for a group that was lost.
func (e *Engine) search(g *group) {
	ctx, cancel := context.WithDeadline(context.Background(), g.until)
	defer cancel()
	done := false
	defer func() {
		if !done {
			g.end(errStoreGone)
		}
		finished, next := e.queue.found(g)
		tell(finished)
		e.launch(next)
	}()
	shielded([]*group{g}, func() { e.resolve(ctx, g) })
	done = true
}

func tell(finished []*call) {
	for _, c := range finished {
		c.done <- answered
	}
}
