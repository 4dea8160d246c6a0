package compose

import (
	"context"
	"time"
)

// few is up to how many rules the results of a decision need no memory of their own.
const few = 3

// room is for the results of a decision.
type room [few]RuleResult

// allow is AllowN, with room for the results of a decision in place: nothing that such
// a decision is made of leaves the caller's stack, unless it is kept.
func (l *Limiter[T]) allow(ctx context.Context, in T, n int64, results *room) (d Decision, err error) {
	if l.options.Observer != nil {
		return l.observed(ctx, in, n)
	}
	asked, err := l.allowInto(ctx, in, n, results, &d)
	if asked > 0 {
		d.Results = results[:asked]
	}
	return d, err
}

// observed is allow for a limiter with an observer, which may keep what it is told: so
// the results have a room of their own.
func (l *Limiter[T]) observed(ctx context.Context, in T, n int64) (d Decision, err error) {
	began, results := time.Now(), new(room)
	asked, err := l.allowInto(ctx, in, n, results, &d)
	if asked > 0 {
		d.Results = results[:asked]
	}
	l.observe(OpAllow, d, err, began)
	return d, err
}

// allowInto writes the decision where it stays, and asked of its results into the
// room. The caller puts the two together: of a pointer that is stored here, the
// compiler could not know that it goes no further.
func (l *Limiter[T]) allowInto(ctx context.Context, in T, n int64, results *room, d *Decision) (asked int, err error) {
	if n < 1 {
		return 0, tooFew(n)
	}
	if l.memory == nil || ctx.Err() != nil {
		return l.decideByEngine(ctx, in, n, results, d)
	}
	// What is known of the decision is written before the records are unlocked,
	// which waits for it. Written later, it would have to be waited for again, by
	// the caller who copies the decision.
	d.Attempts = 1
	if asked, err = l.decideInMemory(in, n, &results[0], d); err != nil {
		*d = Decision{Attempts: min(asked, 1)}
		return 0, err
	}
	if l.options.MaxSkew > 0 {
		l.judge(d)
	}
	return asked, nil
}

// decideByEngine is allowInto by the engine.
func (l *Limiter[T]) decideByEngine(ctx context.Context, in T, n int64, results *room, d *Decision) (asked int, err error) {
	e, err := l.ask(OpAllow, in, n)
	if err != nil {
		return 0, err
	}
	defer e.release()
	how, err := l.commit(ctx, e)
	switch {
	case err != nil:
		*d, err = l.failed(ctx, e, how, err, l.options.OnFailure)
		return 0, err
	case len(e.results) > few:
		*d = e.decision(how)
		l.judge(d)
		return 0, nil
	}
	d.Allowed, d.Memory, d.Attempts = e.allowed, how.Cached, how.Attempts
	d.summarize(e.results)
	asked = copy(results[:], e.results)
	l.judge(d)
	return asked, nil
}
