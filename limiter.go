package sluice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

// Limiter decides calls by its rules. It is safe for concurrent use. There is nothing to close.
//
// A call is allowed if every enforced rule that applies to it allows it. All of them are then charged in one atomic write. Otherwise
// nothing is charged.
//
// An error means that the limiter could not decide. Only Wait and WaitN also return one if the wait would be too long.
// Options.OnFailure can turn the first four, and other errors of the database, into a Degraded decision:
//
//   - [storage.ErrOutcomeUnknown]: the call may have been charged. Check for it first, because it can also wrap others of this
//     list.
//   - [storage.ErrUnavailable]: the store failed until the end of the timeout, or the circuit breaker is open.
//   - [storage.ErrContended]: other writers held or changed the record until the end of the timeout.
//   - [storage.ErrOverloaded]: too many calls wait for the store.
//   - [storage.ErrKey]: the keys are on different servers; see Options.Group.
//   - [storage.ErrProgram]: the server decided differently from the policy in Go. The call may have been charged.
//   - [algo.ErrCost]: the number of calls is below 1.
//   - [RuleError]: a rule could not decide.
//   - The error of the context.
//
// After ErrUnavailable, ErrContended, ErrOverloaded and ErrKey nothing was charged.
//
// A call may notice that its context is cancelled only when the store answers, or at its deadline.
type Limiter[T any] struct {
	options Options[T]
	rules   []Rule[T]
	store   storage.Store
	memory  *memory.Store  // decides if the store is in memory; then there is no engine
	engine  *engine.Engine // decides otherwise
	mayHold bool           // a rule may have a policy whose units are held
	waits   waitQueues     // of calls of Wait
	purses  *purses        // of calls that were bought ahead; nil without Options.Prepay
}

// New is [For] with these options. Without rules, it returns a limiter that allows every call.
func (o Options[T]) New(store storage.Store, rules ...Rule[T]) (*Limiter[T], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	rules, err := o.prepare(rules)
	if err != nil {
		return nil, err
	}
	l := &Limiter[T]{options: o, rules: rules, waits: waitQueues{all: make(map[string]*waitQueue)}}
	l.mayHold = slices.ContainsFunc(rules, func(r Rule[T]) bool { return r.PolicyFor != nil || isHolder(r.Policy) })
	if o.OnFailure == FailLocal && o.Local == nil {
		l.options.Local = &memory.Store{Clock: o.Clock} // Join then finds this one
	}
	if store == nil {
		store, l.options.Clock = &memory.Store{Clock: o.Clock}, nil
	}
	if v := reflect.ValueOf(store); v.Kind() == reflect.Pointer && v.IsNil() { // as a function returns that also returned an error
		return nil, fmt.Errorf("sluice: the store is a nil %T; check the error of the function that returned it, or pass a plain nil for a store of this limiter alone", store)
	}
	l.store = store
	if m, ok := store.(*memory.Store); ok {
		l.memory = m
		return l, nil
	}
	l.engine = engine.New(store, engine.Options{
		Clock: o.Clock, Timeout: o.Timeout, DenialCacheTTL: o.DenialCacheTTL, DenialCacheSize: o.DenialCacheSize,
		OpenAfter: o.CircuitOpenAfter, MaxRoundTrips: o.MaxRoundTrips, MaxQueue: o.MaxQueue,
	})
	if o.Prepay.Calls > 0 {
		l.purses, l.mayHold = &purses{all: make(map[string]*purse)}, false // Prepay refuses Holders
	}
	for i := range l.rules {
		l.rules[i].program = l.engine.Program(l.rules[i].Policy)
	}
	return l, nil
}

// prepare returns a copy of rules that is ready to use.
func (o *Options[T]) prepare(rules []Rule[T]) ([]Rule[T], error) {
	rules = slices.Clone(rules)
	for i := range rules {
		r := &rules[i]
		if r.texts == nil { // otherwise it is a rule of another limiter; see Join
			if err := r.prepare(i); err != nil {
				return nil, err
			}
			r.texts = &ruleTexts{namespace: o.Namespace, name: r.Name}
		}
		if slices.ContainsFunc(rules[:i], func(other Rule[T]) bool { return other.Name == r.Name }) {
			return nil, fmt.Errorf("sluice: two rules have the name %q; give each rule its own name", r.Name)
		}
		if o.Prepay.Calls > 0 && isHolder(r.Policy) {
			return nil, &RuleError{Rule: r.Name, Err: errPrepaidHolder}
		}
		if r.Policy != nil {
			r.ownText = r.texts.of(r.Policy)
		}
	}
	return rules, nil
}

// Rules returns the names of the rules in their order.
func (l *Limiter[T]) Rules() []string {
	names := make([]string, len(l.rules))
	for i := range l.rules {
		names[i] = l.rules[i].Name
	}
	return names
}

// Peek is PeekN for one call.
func (l *Limiter[T]) Peek(ctx context.Context, in T) (Decision, error) {
	return l.PeekN(ctx, in, 1)
}

// PeekN decides like AllowN, but charges nothing, so Remaining is not reduced. To enforce a limit, use AllowN.
func (l *Limiter[T]) PeekN(ctx context.Context, in T, n int64) (Decision, error) {
	return l.do(ctx, driver.Peek, in, n, l.rules)
}

// Refund gives back the cost of n calls, at most until all units are available.
//
// Refund does not know what was charged: under a shadow rule that would have denied, or after a Degraded decision, it was
// nothing. To return exactly what was charged, use [Limiter.Reserve] and [Reservation.Settle].
func (l *Limiter[T]) Refund(ctx context.Context, in T, n int64) (Decision, error) {
	return l.do(ctx, driver.Refund, in, n, l.rules)
}

// Charge takes the cost of n calls, even if less is left. The rest is a debt, and calls are denied until it is refilled.
func (l *Limiter[T]) Charge(ctx context.Context, in T, n int64) (Decision, error) {
	return l.do(ctx, driver.Charge, in, n, l.rules)
}

// Reset deletes the states of the input under all rules that apply, so all its units are available again. Other limiters can
// deny from their caches for up to twice Options.DenialCacheTTL, and can use calls bought with Options.Prepay. If the store
// fails, Reset returns the error under every Options.OnFailure.
func (l *Limiter[T]) Reset(ctx context.Context, in T) error {
	return l.reset(ctx, in, l.rules)
}

// ResetRule is Reset for one rule. It calls no functions of the other rules. An unknown name is an error. If the rule does not
// apply to the input, ResetRule does nothing.
func (l *Limiter[T]) ResetRule(ctx context.Context, name string, in T) error {
	index := slices.IndexFunc(l.rules, func(r Rule[T]) bool { return r.Name == name })
	if index < 0 {
		return noRule("ResetRule", name, l.Rules())
	}
	return l.reset(ctx, in, l.rules[index:index+1])
}

func (l *Limiter[T]) reset(ctx context.Context, in T, rules []Rule[T]) error {
	_, err := l.do(ctx, driver.Reset, in, 1, rules)
	return err
}

// do performs an operation under rules, and calls the observer.
func (l *Limiter[T]) do(ctx context.Context, op driver.Op, in T, n int64, rules []Rule[T]) (Decision, error) {
	return l.observed(ctx, op, func() (d Decision, err error) {
		err = l.decideInput(ctx, op, in, n, rules, &d)
		return d, err
	})
}

// decideInput performs an operation on n calls under rules, and writes the decision to d. d is zero, but d.Results can have
// memory for results. No pointer into that memory escapes.
func (l *Limiter[T]) decideInput(ctx context.Context, op driver.Op, in T, n int64, rules []Rule[T], d *Decision) error {
	var some [inlineRules]driver.Item
	items, err := l.gather(op, in, n, rules, d, some[:0])
	if err != nil {
		return err
	}
	_, err = l.decide(ctx, op, 0, items, d, l.options.OnFailure)
	return err
}

// gather calls the functions of the rules for an operation on n calls. It sets the results of d to those of the rules that apply,
// and appends an item with its key for each to items, which is empty. It uses the memory of both. With an error d is zero.
func (l *Limiter[T]) gather(op driver.Op, in T, n int64, rules []Rule[T], d *Decision, items []driver.Item) ([]driver.Item, error) {
	if n < 1 {
		*d = Decision{}
		return nil, countError(n)
	}
	group := ""
	if l.options.Group != nil {
		group = l.options.Group(in)
	}
	if cap(d.Results) < len(rules) {
		d.Results = make([]RuleResult, 0, len(rules))
	}
	d.Results = d.Results[:0]
	if cap(items) < len(rules) {
		items = make([]driver.Item, 0, len(rules))
	}
	for i := range rules {
		rule := &rules[i]
		p, cost, err := rule.Policy, n, error(nil)
		if rule.PolicyFor != nil {
			p, err = rule.policyFor(in)
		}
		if p != nil && op != driver.Reset {
			cost, err = rule.cost(in, n)
		}
		switch {
		case err != nil:
			*d = Decision{}
			return nil, err
		case p == nil:
			continue
		case cost == 0 && op != opReserve:
			continue
		}
		count, key := len(d.Results), rule.key(in)
		d.Results, items = d.Results[:count+1], items[:count+1]
		r, k := &d.Results[count], &items[count].Key
		r.Rule, r.Key, r.Policy, r.Cost, r.Shadow = rule.Name, key, p, cost, rule.Shadow
		k.Group, k.Rule, k.Key = group, rule.text(p), key
	}
	return items, nil
}

// observed calls decide, and then the observer.
func (l *Limiter[T]) observed(ctx context.Context, op driver.Op, decide func() (Decision, error)) (Decision, error) {
	if l.options.Observer == nil {
		return decide()
	}
	began := time.Now()
	d, err := decide()
	l.options.Observer(ctx, Event{Op: opNames[op], Outcome: outcomeOf(&d, err), Decision: d, Err: cmp.Or(err, d.Err), Duration: time.Since(began)})
	return d, err
}

// decide performs an operation on the records of items, and writes the decision to d. d.Results[i] has the rule and the cost for
// items[i]. An error of the store is handled by the failure policy. If upTo is above 0, the operation is that of AllowUpTo, and calls
// is its result.
func (l *Limiter[T]) decide(ctx context.Context, op driver.Op, upTo int64, items []driver.Item, d *Decision, onFailure FailurePolicy) (calls int64, err error) {
	return l.decideSince(ctx, time.Time{}, op, upTo, items, d, onFailure)
}

// decideSince is decide for a call that began earlier. A zero began means now.
func (l *Limiter[T]) decideSince(ctx context.Context, began time.Time, op driver.Op, upTo int64, items []driver.Item, d *Decision, onFailure FailurePolicy) (calls int64, err error) {
	asked := d.Results // after an error d has none
	if l.memory != nil {
		calls, err = decideInMemory(ctx, l.memory, l.options.Clock, op, upTo, items, d)
	} else {
		calls, err = l.decideByEngine(ctx, began, op, upTo, items, d, onFailure)
	}
	if most := l.options.MaxSkew; most > 0 && d.Skew > most && d.Err == nil {
		d.Err = fmt.Errorf("%w by %v", ErrSkew, d.Skew)
	}
	if l.purses != nil && op != driver.Allow && op != driver.Peek && !errors.Is(err, storage.ErrNotApplied) {
		l.purses.changed(asked, op == driver.Reset)
	}
	return calls, err
}

// decideInMemory decides under the locks of the records.
func decideInMemory(ctx context.Context, store *memory.Store, clock func() time.Time, op driver.Op, upTo int64, items []driver.Item, d *Decision) (calls int64, err error) {
	failed := store.Transact(ctx, clock, &driver.Update{Items: items, Decide: func(now time.Time) bool {
		if d.Attempts = 1; len(items) > 0 {
			d.At = now
		}
		if upTo == 0 {
			_, d.Allowed, err = evaluate(op, now, clock == nil, d.Results, items)
		} else {
			calls, _, err = evaluateUpTo(upTo, now, clock == nil, d.Results, items)
			d.Allowed = calls > 0
		}
		d.summarize()
		return err == nil
	}})
	if failed != nil {
		err = failed
	}
	if err != nil {
		*d = Decision{Attempts: d.Attempts}
	}
	return calls, err
}

// decideByEngine decides on a store that is not in memory.
func (l *Limiter[T]) decideByEngine(ctx context.Context, began time.Time, op driver.Op, upTo int64, items []driver.Item, d *Decision, onFailure FailurePolicy) (calls int64, err error) {
	var costs []int64
	if upTo > 0 {
		for i := range d.Results {
			costs = append(costs, d.Results[i].Cost)
		}
	}
	now := time.Now()
	if op == driver.Allow && !hasEndedAt(ctx, now) && l.denyFromCache(now, upTo, costs, items, d) {
		return 0, nil
	}
	if slices.ContainsFunc(d.Results, func(r RuleResult) bool { return givesBack(op, &r) }) {
		l.engine.ExpectRefunds()
	}
	// The engine gets copies of the results and the keys, because it can still use them when the call has returned.
	own := &evaluation{op: op, upTo: upTo, results: slices.Clone(d.Results), costs: costs, oneClock: l.options.Clock == nil}
	times := int32(-1) // a server decides at most MaxInt32 calls
	if upTo <= math.MaxInt32 {
		times = int32(upTo)
	}
	attempts, err := l.engine.Decide(ctx, &engine.Request{
		Items: slices.Clone(items), Uses: l.uses(op, own.results), Evaluator: own, Times: times, Began: began,
		FailFast: l.options.OnFailure != FailClosed && (op == driver.Allow || op == driver.Peek), // the other operations would be lost
	})
	if err == nil {
		copy(d.Results, own.results)
		d.conclude(own.allowed, own.at, attempts)
		if l.options.Local != nil {
			err = l.tidyLocal(ctx, op, own.results, items)
		}
		return own.calls, err
	}
	d.Attempts = attempts
	return l.fallBack(ctx, op, upTo, items, d, onFailure, err)
}

// tidyLocal keeps the local limiter ready for the next outage, after an operation on the store. The next outage must not begin with
// units that were reset, and the records of the last one must not take memory for ever.
func (l *Limiter[T]) tidyLocal(ctx context.Context, op driver.Op, results []RuleResult, items []driver.Item) (err error) {
	ctx = context.WithoutCancel(ctx)
	if op == driver.Reset {
		_, err = decideInMemory(ctx, l.options.Local, nil, op, 0, items, &Decision{Results: results})
	}
	if l.options.Local.Stats().Keys > 0 {
		_, _ = l.options.Local.Purge(ctx, 10) // few at a time, so that no call waits for long
	}
	return err
}

// denyFromCache reports whether the cached states of the keys deny, and writes this decision to d. It
// decides in the memory of the caller, so that a repeated denial costs little.
func (l *Limiter[T]) denyFromCache(now time.Time, upTo int64, costs []int64, items []driver.Item, d *Decision) (denied bool) {
	e := evaluation{op: driver.Allow, upTo: upTo, results: d.Results, costs: costs, oneClock: l.options.Clock == nil}
	var at time.Time
	denied = l.engine.Deny(now, items, func(now time.Time) (time.Duration, bool) {
		at = now // with e.at, d.Results would escape
		if _, err := e.Evaluate(now, items, false); err != nil {
			return 0, false
		}
		return e.Denied()
	})
	if denied {
		d.conclude(false, at, 1)
		d.Cached = true
	} else {
		e.restoreCosts()
	}
	return denied
}

// fallBack decides by the failure policy after an error of the store. d.Results has the rules and costs, and d.Attempts is set.
func (l *Limiter[T]) fallBack(ctx context.Context, op driver.Op, upTo int64, items []driver.Item, d *Decision, onFailure FailurePolicy, err error) (calls int64, _ error) {
	attempts := d.Attempts
	if onFailure == FailClosed || op == driver.Reset || hasEnded(ctx) || !isFailure(err) {
		*d = Decision{Attempts: attempts}
		return 0, err
	}
	if calls = upTo; onFailure == FailOpen {
		*d = Decision{Allowed: true}
	} else {
		var local error
		if calls, local = decideInMemory(ctx, l.options.Local, nil, op, upTo, items, d); local != nil {
			*d = Decision{Attempts: attempts}
			return 0, errors.Join(err, local)
		}
	}
	d.Attempts += attempts
	d.Degraded, d.Err = true, err
	return calls, nil
}

// givesBack reports whether an operation gives units back for which calls can be denied from the cache. A denial for want of held units
// is not cached.
func givesBack(op driver.Op, r *RuleResult) bool {
	op = operation(op, r.Cost)
	return (op == driver.Refund || op == driver.Reset) && !r.held
}

// uses returns what an engine needs to know about the results.
func (l *Limiter[T]) uses(op driver.Op, results []RuleResult) []driver.Use {
	uses := make([]driver.Use, len(results))
	for i := range results {
		r := &results[i]
		u := &uses[i]
		*u = driver.Use{Op: operation(op, r.Cost), Cost: min(max(r.Cost, -r.Cost), algo.MaxLevel), Shadow: r.Shadow}
		if u.Op > driver.Charge || u.Cost == 0 {
			continue // no program does it
		}
		if rule := l.ruleOf(r.Rule); rule.PolicyFor == nil && !r.held {
			u.Program = rule.program
		} else {
			u.Program = l.engine.Program(r.Policy)
		}
	}
	return uses
}

// ruleOf returns the rule with a name.
func (l *Limiter[T]) ruleOf(name string) *Rule[T] {
	for i := range l.rules {
		if l.rules[i].Name == name {
			return &l.rules[i]
		}
	}
	return nil
}

// hasEnded reports whether ctx has ended. The Err of a context is still nil for a moment after its
// deadline, until its timer has fired.
func hasEnded(ctx context.Context) bool { return hasEndedAt(ctx, time.Now()) }

func hasEndedAt(ctx context.Context, now time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !now.Before(deadline)
}

// isFailure reports whether the store failed. It is false if the call or a rule has a fault.
func isFailure(err error) bool {
	for _, fault := range [...]error{storage.ErrKey, storage.ErrDuplicateKey, storage.ErrSwap, storage.ErrProgram} {
		if errors.Is(err, fault) {
			return false
		}
	}
	var rule *RuleError
	return !errors.As(err, &rule)
}

// costError is an algo.ErrCost with its own text, because a limiter also takes a cost of 0.
type costError string

func (e costError) Error() string        { return string(e) }
func (e costError) Is(target error) bool { return target == algo.ErrCost }

func countError(n int64) error {
	return costError(fmt.Sprintf("sluice: n must be at least 1, got %d", n))
}
