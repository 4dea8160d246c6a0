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
		var e *evaluation
		if e, err = l.newEvaluation(OpAllow, in, n); err != nil {
			*d = Decision{}
			return err
		}
		err = l.decideInto(ctx, e, l.options.OnFailure, d)
	default:
		err = l.decideInMemory(in, n, d)
	}
	return err
}
