package compose

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// few is up to how many rules a limiter in memory decides without allocating.
const few = 3

// place is where a limiter decides without an engine: in a memory store, under
// its locks, on the stack of the caller.
type place struct {
	store *memory.Store
	clock func() time.Time // nil: the store's
	rules []placeRule
}

// room is for the results of a decision.
type room [few]RuleResult

// placeRule is what the keys of one rule have in common.
type placeRule struct {
	prefix memory.Prefix
	plain  int // up to how many bytes of a user's key the stored key is as it is
}

// findPlace is nil where a limiter needs its engine.
func (l *Limiter[T]) findPlace(store storage.Store, clock func() time.Time) *place {
	o := &l.options
	s, ok := store.(*memory.Store)
	if !ok || len(l.rules) > few || o.Group != nil || o.StoreClock != nil {
		return nil
	}
	p := &place{store: s, clock: clock}
	for i := range l.rules {
		prefix := storage.Key("", o.Namespace, l.rules[i].Name)
		plain := storage.MaxKey - len(prefix) - binary.MaxVarintLen16
		if cut, _ := storage.CutKey(prefix); cut == "" { // it is too long itself, and a hash
			plain = -1
		}
		p.rules = append(p.rules, placeRule{memory.PrefixOf(prefix), plain})
	}
	return p
}

func (p *place) now() time.Time {
	if p.clock != nil {
		return p.clock()
	}
	return p.store.Now()
}

// name is the name of the record of a rule for a user's key.
func (l *Limiter[T]) name(rule int, key string) memory.Name {
	if r := &l.place.rules[rule]; len(key) <= r.plain {
		return r.prefix.Name(key)
	}
	return memory.NameOf(storage.Key("", l.options.Namespace, l.rules[rule].Name, key))
}

// allow is AllowN, but that the results of a decision in place are in the room it is
// handed: nothing that such a decision is made of leaves the caller's stack, unless
// he keeps it.
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

// observed is allow for a limiter with an observer, who may keep what he is told: so
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
	var held bool
	if len(l.rules) == 1 {
		asked, held, err = l.solo(in, n, &results[0], d)
	} else {
		asked, held, err = l.together(in, n, results, d)
	}
	switch {
	case !held: // a store too small for the rules; the engine tells, and applies OnFailure
		*d, err = l.decide(ctx, OpAllow, in, n)
		return 0, err
	case err != nil:
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

// together decides by several rules, or none. asked are those that applied.
func (l *Limiter[T]) together(in T, n int64, results *room, d *Decision) (asked int, held bool, err error) {
	var demands [few]demand
	var names [few]memory.Name
	for i := range l.rules {
		rule := &l.rules[i]
		asks, err := rule.demand(in, n)
		if err != nil {
			return 0, true, err
		}
		if asks.policy == nil {
			continue
		}
		demands[asked], names[asked] = asks, l.name(i, asks.key)
		r := &results[asked]
		r.Rule, r.Key, r.Policy, r.Cost, r.Shadow = rule.Name, asks.key, asks.policy, asks.cost, rule.Shadow
		asked++
	}
	if d.Allowed = true; asked == 0 {
		return 0, true, nil
	}
	d.Allowed, held, err = l.place.decide(demands[:asked], names[:asked], l.place.now(), results[:asked])
	d.summarize(results[:asked])
	return asked, held, err
}

// decide decides while it holds the records of names, unless they cannot be held.
func (p *place) decide(demands []demand, names []memory.Name, now time.Time, results []RuleResult) (allowed, held bool, err error) {
	var hold memory.Hold
	if p.store.Hold(&hold, now, names...) != nil {
		return false, false, nil
	}
	defer hold.Release()
	buffer, ends := hold.Buffer(), [few]int{}
	for i := range demands {
		r := &results[i]
		var longer []byte
		longer, r.Result, err = demands[i].policy.Step(buffer, hold.State(i), now, demands[i].cost)
		if err == nil {
			buffer = longer
		} else if err = r.broken(err); err != nil {
			return false, true, err
		}
		ends[i] = len(buffer)
	}
	hold.Keep(buffer)
	if !enforced(results) {
		return false, true, look(demands, &hold, now, results)
	}
	start := 0
	for i := range demands {
		if r := &results[i]; r.Allowed { // else it is a shadow, and nothing has changed
			hold.Put(i, buffer[start:ends[i]], ttl(r.ResetAfter))
		}
		start = ends[i]
	}
	return true, true, nil
}

// enforced reports whether all rules that are enforced allow.
func enforced(results []RuleResult) bool {
	for i := range results {
		if r := &results[i]; !r.Allowed && !r.Shadow {
			return false
		}
	}
	return true
}

// look replaces the results of rules that would have paid, had no other denied.
func look(demands []demand, hold *memory.Hold, now time.Time, results []RuleResult) (err error) {
	for i := range results {
		if err = results[i].look(&demands[i], hold.State(i), now); err != nil {
			return err
		}
	}
	return nil
}

// look makes of a result that would have paid the one of a look.
func (r *RuleResult) look(d *demand, state []byte, now time.Time) (err error) {
	if !r.Allowed {
		return nil
	}
	if r.Result, err = d.policy.Peek(state, now, d.cost); err != nil {
		return r.broken(err)
	}
	return nil
}

// broken takes in an error of the policy, and returns it. That of a shadow rule, which
// denies nothing, is told in its result instead.
func (r *RuleResult) broken(err error) error {
	err = &RuleError{r.Rule, r.Key, err}
	if !r.Shadow {
		return err
	}
	r.Result, r.Err = algo.Result{}, err
	return nil
}
