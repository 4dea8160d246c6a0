package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

// Limiter decides by rules, all of them or none, on a store that it may share
// with other limiters and processes. It is safe for concurrent use. It has
// nothing to close.
//
// A call is allowed if every rule that applies and is enforced allows it, and
// then pays under each in one atomic write; a call that one rule denies costs
// nothing under any. Rules may share keys, repeat limits and come in any order.
//
// A call returns soon after its context ends. There is one exception: if the server has
// answered within the last 10 ms, the caller may send its own round trip, and go-redis does
// not notice that a context is cancelled. Such a caller gets its answer when the server
// replies, or at its deadline or the end of Options.Timeout.
//
// An error means that nothing could be decided, never a denial; see
// Options.OnFailure for what else may become of it:
//   - [storage.ErrContended], [storage.ErrUnavailable]: not in the time that there was, or
//     the circuit breaker is open; nothing was paid
//   - [storage.ErrOverloaded]: too many decisions wait for the store; nothing was paid
//   - [storage.ErrOutcomeUnknown]: the reply to the write was lost, or the
//     context ended before it; it may have been paid
//   - [storage.ErrProgram]: the server decided otherwise than the policy in Go; it may have
//     been paid
//   - [algo.ErrCost]: n below 1; or a cost below 0, as [RuleError]
//   - an error of Rule.PolicyFor, or its nil policy without an error: as [RuleError]
//   - [algo.ErrState], [algo.ErrStateVersion]: the stored state is of another algorithm, or
//     version of one; as [RuleError]
//   - the context's error
type Limiter[T any] struct {
	options  Options[T]
	rules    []Rule[T]
	engine   *engine.Engine
	local    *engine.Engine // decides while the store fails, if that is the policy
	memory   *memoryPath    // the fast path, or nil
	inMemory bool           // the store is a memory.Store
	server   bool           // the store can run programs
}

// New makes a limiter on store. A nil store is one in memory, of this limiter
// alone. Without rules it allows everything.
func New[T any](store storage.Store, rules ...Rule[T]) (*Limiter[T], error) {
	return Options[T]{}.New(store, rules...)
}

func newLimiter[T any](o Options[T], store storage.Store, rules []Rule[T]) (*Limiter[T], error) {
	names, rules := make(map[string]bool), slices.Clone(rules)
	for i := range rules {
		if err := rules[i].prepare(i); err != nil {
			return nil, err
		}
		if names[rules[i].Name] {
			return nil, fmt.Errorf("compose: two rules have the name %q", rules[i].Name)
		}
		names[rules[i].Name] = true
	}
	if store == nil {
		store = new(memory.Store)
	}
	m, inMemory := store.(*memory.Store)
	if inMemory && m == nil {
		return nil, errors.New("compose: the store is a nil *memory.Store; want new(memory.Store), or plain nil for one of this limiter alone")
	}
	l := &Limiter[T]{options: o, rules: rules, inMemory: inMemory}
	eo := engine.Options{
		Clock: o.Clock, Timeout: o.Timeout, DenialCacheTTL: o.DenialCacheTTL, DenialCacheSize: o.DenialCacheSize,
		OpenAfter: o.CircuitOpenAfter, MaxRoundTrips: o.MaxRoundTrips, MaxQueue: o.MaxQueue,
	}
	if o.OnFailure == FailLocal {
		l.local = newEngine(new(memory.Store), eo)
	}
	l.engine = newEngine(store, eo)
	l.memory = l.findMemoryPath(store, o.Clock)
	if _, l.server = store.(driver.Server); l.server {
		for i := range l.rules {
			l.rules[i].program = programOf(l.rules[i].Policy)
		}
	}
	return l, nil
}

// newEngine makes an engine. A store in memory has a clock that no other process shares.
func newEngine(store storage.Store, o engine.Options) *engine.Engine {
	if o.Clock == nil {
		switch s := store.(type) {
		case *memory.Store:
			o.Clock = s.Now
		case driver.InPlace:
			o.Clock = time.Now
		}
	}
	return engine.New(store, o)
}

// Rules are the names of the rules, in their order.
func (l *Limiter[T]) Rules() []string {
	names := make([]string, len(l.rules))
	for i := range l.rules {
		names[i] = l.rules[i].Name
	}
	return names
}

// Allow asks for one call: it is AllowN for 1.
func (l *Limiter[T]) Allow(ctx context.Context, in T) (d Decision, err error) {
	d.Results = new(room)[:] // inlined, so that the room is on the caller's stack
	err = l.allow(ctx, in, 1, &d)
	return d, err
}

// AllowN asks for n calls at once, all or none: n times what each rule's Cost
// says. n is at least 1.
func (l *Limiter[T]) AllowN(ctx context.Context, in T, n int64) (d Decision, err error) {
	d.Results = new(room)[:]
	err = l.allow(ctx, in, n, &d)
	return d, err
}

// Peek answers what Allow would, and pays nothing: it is PeekN for 1.
func (l *Limiter[T]) Peek(ctx context.Context, in T) (Decision, error) {
	return l.PeekN(ctx, in, 1)
}

// PeekN answers what AllowN would, and pays nothing. Of a rule under which in is free
// it tells nothing. n is at least 1.
func (l *Limiter[T]) PeekN(ctx context.Context, in T, n int64) (Decision, error) {
	return l.do(ctx, OpPeek, in, n)
}

// Refund gives back what n calls cost, up to full, under every rule that
// applies. n is at least 1. It does so under shadows that denied the calls, and for
// calls that no store knows of because their decision was Degraded, too: what was paid
// is known to [Limiter.Reserve].
func (l *Limiter[T]) Refund(ctx context.Context, in T, n int64) (Decision, error) {
	return l.do(ctx, OpRefund, in, n)
}

// Charge takes what n calls cost, unconditionally, under every rule that
// applies. What is not there becomes a debt, which is refilled first. n is at least 1.
func (l *Limiter[T]) Charge(ctx context.Context, in T, n int64) (Decision, error) {
	return l.do(ctx, OpCharge, in, n)
}

func (l *Limiter[T]) do(ctx context.Context, op Op, in T, n int64) (Decision, error) {
	return l.told(op, func() (Decision, error) { return l.decide(ctx, op, in, n) })
}

// told lets the observer know of a decision.
func (l *Limiter[T]) told(op Op, decide func() (Decision, error)) (Decision, error) {
	if l.options.Observer == nil {
		return decide()
	}
	began := time.Now()
	d, err := decide()
	l.observe(op, d, err, began)
	return d, err
}

func (l *Limiter[T]) observe(op Op, d Decision, err error, began time.Time) {
	e := Event{Op: op, Outcome: outcomeOf(&d, err), Decision: d, Err: err, Duration: time.Since(began)}
	if err == nil {
		e.Err = d.Err
	}
	l.options.Observer(e)
}

func (l *Limiter[T]) decide(ctx context.Context, op Op, in T, n int64) (Decision, error) {
	e, err := l.ask(op, in, n)
	if err != nil {
		return Decision{}, err
	}
	return l.decideAll(ctx, e, l.options.OnFailure)
}

// ask calls the functions of the rules.
func (l *Limiter[T]) ask(op Op, in T, n int64) (*evaluation, error) {
	if n < 1 {
		return nil, tooFew(n)
	}
	e, group := newEvaluation(op), l.group(in)
	for i := range l.rules {
		if err := l.askRule(e, i, in, n, group); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// askRule calls the functions of one rule, and adds what it asks for to the evaluation.
func (l *Limiter[T]) askRule(e *evaluation, index int, in T, n int64, group string) error {
	rule := &l.rules[index]
	d, err := rule.demandOf(e.op, in, n)
	if err != nil || d.policy == nil {
		return err
	}
	d.rule, d.program = index, rule.program
	e.add(d, e.key(l.inMemory, group, l.options.Namespace, rule.Name, d.key), rule.Name, rule.Shadow)
	return nil
}

func (l *Limiter[T]) group(in T) string {
	if l.options.Group == nil {
		return ""
	}
	return l.options.Group(in)
}

// decideAll decides, and releases the evaluation.
func (l *Limiter[T]) decideAll(ctx context.Context, e *evaluation, onFailure FailurePolicy) (Decision, error) {
	defer e.release()
	how, err := l.commit(ctx, e)
	if err != nil {
		return l.failed(ctx, e, how, err, onFailure)
	}
	d := e.decision(how)
	l.judge(&d)
	return d, nil
}

// commit lets the engine decide.
func (l *Limiter[T]) commit(ctx context.Context, e *evaluation) (engine.How, error) {
	return l.engine.Decide(ctx, e.prepare(l.server))
}

// judge tells in a decision that was made what is wrong with it.
func (l *Limiter[T]) judge(d *Decision) {
	if most := l.options.MaxSkew; most > 0 && d.Skew > most {
		d.Err = skewError(d.Skew)
	}
}

// skewError is apart from judge so that judge can be inlined.
func skewError(skew time.Duration) error { return fmt.Errorf("%w by %v", ErrSkew, skew) }

// failed applies the failure policy.
func (l *Limiter[T]) failed(ctx context.Context, e *evaluation, how engine.How, cause error, onFailure FailurePolicy) (Decision, error) {
	if onFailure == FailClosed || ctx.Err() != nil || !isFailure(cause) {
		return Decision{Attempts: how.Attempts}, cause
	}
	d := Decision{Allowed: true, Attempts: how.Attempts}
	if onFailure == FailLocal {
		e = e.again()
		defer e.release()
		local, err := l.local.Decide(ctx, e.prepare(false))
		if err != nil {
			return Decision{Attempts: how.Attempts}, errors.Join(cause, err)
		}
		local.Attempts += how.Attempts
		d = e.decision(local)
	}
	d.Degraded, d.Err = true, cause
	return d, nil
}

// isFailure reports whether the store is to blame, not what was asked of it.
func isFailure(err error) bool {
	for _, own := range [...]error{algo.ErrCost, storage.ErrKey, storage.ErrDuplicateKey, storage.ErrSwap, storage.ErrProgram} {
		if errors.Is(err, own) {
			return false
		}
	}
	var rule *RuleError
	return !errors.As(err, &rule)
}

// tooFew is the error of n calls. It is an algo.ErrCost, but in words of its own: those
// of ErrCost are about a negative cost.
type tooFew int64

func (n tooFew) Error() string        { return fmt.Sprintf("compose: n must be at least 1, got %d", int64(n)) }
func (n tooFew) Is(target error) bool { return target == algo.ErrCost }
