package compose

import (
	"context"
	"time"
)

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
	if l.place == nil || ctx.Err() != nil {
		return l.remote(ctx, in, n, results, d)
	}
	// What is known of the decision is written before the records are unlocked,
	// which waits for it. Written later, it would have to be waited for again, by
	// the caller who copies the decision.
	d.Attempts = 1
	if len(l.rules) == 1 {
		asked, err = l.solo(in, n, &results[0], d)
	} else {
		asked, err = l.together(in, n, results, d)
	}
	if err != nil {
		*d = Decision{Attempts: min(asked, 1)}
		return 0, err
	}
	if l.options.MaxSkew > 0 {
		l.judge(d)
	}
	return asked, nil
}

// remote is allowInto by the engine.
func (l *Limiter[T]) remote(ctx context.Context, in T, n int64, results *room, d *Decision) (asked int, err error) {
	t, err := l.glance(ctx, in, n, &results[0], d)
	if err != nil {
		return 0, err
	}
	if t == nil {
		return 1, nil
	}
	how, err := l.commit(ctx, t)
	switch {
	case err != nil:
		*d, err = l.failed(ctx, t, how, err, l.options.OnFailure)
		return 0, err
	case len(t.results) > few:
		*d = t.decision(how)
		l.judge(d)
		return 0, nil
	}
	d.Allowed, d.Memory, d.Attempts = t.allowed, how.Memory && !t.allowed, how.Attempts
	d.summarize(t.results)
	asked = copy(results[:], t.results)
	t.end()
	l.judge(d)
	return asked, nil
}
