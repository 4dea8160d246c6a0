package compose

import (
	"context"
	"fmt"
	"slices"
)

// Reset deletes the states of in under all rules that apply to it, so that their limits are
// full again. Other processes can deny calls from their caches for up to
// Options.DenialCacheTTL. If the store fails, Reset returns the error under every
// Options.OnFailure, because nothing was reset.
func (l *Limiter[T]) Reset(ctx context.Context, in T) error {
	return l.reset(ctx, func() (*evaluation, error) { return l.newEvaluation(OpReset, in, 1) })
}

// ResetRule is Reset for one rule. The states under the other rules stay as they are, and
// their functions are not called. Use it to unlock an account while the limit of the address
// still holds. It returns an error if no rule has the name. It returns nil if the rule does
// not apply to in.
func (l *Limiter[T]) ResetRule(ctx context.Context, name string, in T) error {
	index := slices.IndexFunc(l.rules, func(r Rule[T]) bool { return r.Name == name })
	if index < 0 {
		return fmt.Errorf("compose: ResetRule: no rule has the name %q; the rules are %q", name, l.Rules())
	}
	return l.reset(ctx, func() (*evaluation, error) {
		e := pooledEvaluation(OpReset)
		return e, l.addRule(e, index, in, 1, l.group(in))
	})
}

func (l *Limiter[T]) reset(ctx context.Context, newEvaluation func() (*evaluation, error)) error {
	d, err := l.observed(OpReset, func() (Decision, error) {
		e, err := newEvaluation()
		if err != nil {
			return Decision{}, err
		}
		return l.decide(ctx, e, l.options.OnFailure)
	})
	if err == nil && d.Degraded {
		return d.Err
	}
	return err
}
