package compose

import (
	"context"
	"time"
)

// few is up to how many rules the results of a decision need no memory of their own.
const few = 3

// room is for the results of a decision.
type room [few]RuleResult

// allow is AllowN into d, which comes with room for its results in d.Results and is zero
// otherwise. No pointer into that room escapes, so the room can be on the caller's stack. The
// decision is written where the caller has it, because every copy of it takes time.
func (l *Limiter[T]) allow(ctx context.Context, in T, n int64, d *Decision) (err error) {
	if l.options.Observer != nil {
		*d, err = l.observed(ctx, in, n)
		return err
	}
	return l.allowInto(ctx, in, n, d)
}

// observed is allow for a limiter with an observer, which may keep what it is told: so
// the results have a room of their own.
func (l *Limiter[T]) observed(ctx context.Context, in T, n int64) (d Decision, err error) {
	began := time.Now()
	d.Results = new(room)[:]
	err = l.allowInto(ctx, in, n, &d)
	l.observe(OpAllow, d, err, began)
	return d, err
}

// allowInto is allow without the observer.
func (l *Limiter[T]) allowInto(ctx context.Context, in T, n int64, d *Decision) (err error) {
	switch {
	case n < 1:
		*d, err = Decision{}, tooFew(n)
	case l.memory == nil || ctx.Err() != nil:
		err = l.decideByEngine(ctx, in, n, d)
	default:
		err = l.decideInMemory(in, n, d)
	}
	return err
}

// decideByEngine is allowInto by the engine.
func (l *Limiter[T]) decideByEngine(ctx context.Context, in T, n int64, d *Decision) error {
	e, err := l.ask(OpAllow, in, n)
	if err != nil {
		*d = Decision{}
		return err
	}
	defer e.release()
	how, err := l.commit(ctx, e)
	switch {
	case err != nil:
		*d, err = l.failed(ctx, e, how, err, l.options.OnFailure)
		return err
	case len(e.results) > few:
		*d = e.decision(how)
	default:
		d.Allowed, d.Cached, d.Attempts = e.allowed, how.Cached, how.Attempts
		d.summarize(e.results)
		if d.Results = d.Results[:copy(d.Results, e.results)]; len(d.Results) == 0 {
			d.Results = nil
		}
	}
	l.judge(d)
	return nil
}
