package compose

import "context"

// inlineRules is the most rules whose results are on the stack of the caller of Allow.
const inlineRules = 3

type inlineResults [inlineRules]RuleResult

// Allow is AllowN for one call.
func (l *Limiter[T]) Allow(ctx context.Context, in T) (d Decision, err error) {
	d.Results = new(inlineResults)[:] // Allow is inlined, so this is on the caller's stack
	err = l.allow(ctx, in, 1, &d)
	return d, err
}

// AllowN decides whether n calls are allowed now. They are allowed or denied together. If
// they are allowed, they pay n times the Cost of each rule. n is at least 1.
func (l *Limiter[T]) AllowN(ctx context.Context, in T, n int64) (d Decision, err error) {
	d.Results = new(inlineResults)[:]
	err = l.allow(ctx, in, n, &d)
	return d, err
}

// allow writes the decision to d. d is zero but for d.Results, which has memory for
// inlineRules results. No pointer into that memory escapes. The decision is not returned,
// because each copy of it takes time.
func (l *Limiter[T]) allow(ctx context.Context, in T, n int64, d *Decision) (err error) {
	if l.options.Observer == nil {
		return l.allowInto(ctx, in, n, d)
	}
	// The observer can keep the decision, so the results need their own memory.
	*d, err = l.observed(OpAllow, func() (d Decision, err error) {
		d.Results = new(inlineResults)[:]
		err = l.allowInto(ctx, in, n, &d)
		return d, err
	})
	return err
}

func (l *Limiter[T]) allowInto(ctx context.Context, in T, n int64, d *Decision) (err error) {
	switch {
	case n < 1:
		*d, err = Decision{}, countError(n)
	case l.memory == nil || ctx.Err() != nil:
		err = l.decideByEngine(ctx, in, n, d)
	default:
		err = l.decideInMemory(in, n, d)
	}
	return err
}

// decideByEngine is decide for Allow. It writes the results to the memory of d.
func (l *Limiter[T]) decideByEngine(ctx context.Context, in T, n int64, d *Decision) error {
	e, err := l.newEvaluation(OpAllow, in, n)
	if err != nil {
		*d = Decision{}
		return err
	}
	defer e.release()
	how, err := l.engine.Decide(ctx, e.prepare(l.server))
	switch {
	case err != nil:
		*d, err = l.onFailure(ctx, e, how, err, l.options.OnFailure)
		return err
	case len(e.results) > inlineRules:
		*d = e.decision(how)
	default:
		d.Allowed, d.Cached, d.Attempts = e.allowed, how.Cached, how.Attempts
		d.summarize(e.results)
		if d.Results = d.Results[:copy(d.Results, e.results)]; len(d.Results) == 0 {
			d.Results = nil
		}
	}
	l.checkSkew(d)
	return nil
}
