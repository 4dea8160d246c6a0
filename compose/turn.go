package compose

import (
	"bytes"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// turn is one decision of a limiter under way.
type turn struct {
	op      Op
	demands []demand
	keys    []string // of the store
	results []RuleResult
	allowed bool
	glanced bool // what is remembered does not deny it
	buffer  []byte

	run storage.Decide // is decide
}

var turns = sync.Pool{New: func() any {
	t := new(turn)
	t.run = t.decide
	return t
}}

func newTurn(op Op) *turn {
	t := turns.Get().(*turn)
	t.op = op
	return t
}

// add adds what a rule asks for, under a key of the store.
func (t *turn) add(d demand, key, rule string, shadow bool) {
	t.demands, t.keys = append(t.demands, d), append(t.keys, key)
	t.results = append(t.results, RuleResult{Rule: rule, Key: d.key, Policy: d.policy, Cost: d.cost, Shadow: shadow})
}

// only lets go of what is not wanted.
func (t *turn) only(wanted func(i int) bool) {
	kept := 0
	for i := range t.results {
		if wanted(i) {
			t.demands[kept], t.keys[kept], t.results[kept] = t.demands[i], t.keys[i], t.results[i]
			kept++
		}
	}
	clear(t.demands[kept:])
	clear(t.keys[kept:])
	clear(t.results[kept:])
	t.demands, t.keys, t.results = t.demands[:kept], t.keys[:kept], t.results[:kept]
}

// end lets the turn be used again. The engine must be done with it.
func (t *turn) end() {
	if t.allowed || t.op != OpAllow && t.op != OpPeek {
		t.buffer = nil // the states in it are the engine's now
	}
	clear(t.demands)
	clear(t.keys)
	clear(t.results)
	t.demands, t.keys, t.results = t.demands[:0], t.keys[:0], t.results[:0]
	t.allowed, t.glanced = false, false
	turns.Put(t)
}

// again is the same turn afresh, for when the first may still be under way.
func (t *turn) again() *turn {
	a := newTurn(t.op)
	a.demands, a.keys = append(a.demands, t.demands...), append(a.keys, t.keys...)
	for i := range t.results {
		r := &t.results[i]
		a.results = append(a.results, RuleResult{Rule: r.Rule, Key: r.Key, Policy: r.Policy, Cost: r.Cost, Shadow: r.Shadow})
	}
	return a
}

// times is the turn of n calls, where t is that of one.
func (t *turn) times(op Op, n int64) *turn {
	a := t.again()
	a.op = op
	for i := range a.demands {
		a.ask(i, times(a.demands[i].cost, n))
	}
	return a
}

// ask sets what is asked of a rule.
func (t *turn) ask(i int, cost int64) { t.demands[i].cost, t.results[i].Cost = cost, cost }

// decide is a storage.Decide.
func (t *turn) decide(now time.Time, found [][]byte, next []storage.Change) (lasting bool, err error) {
	t.buffer = t.buffer[:0]
	for i := range t.demands {
		t.results[i].Err = nil
		if err := t.move(i, now, found[i], &next[i]); err != nil {
			if err = t.results[i].broken(err); err != nil {
				return false, err
			}
		}
	}
	switch t.op {
	case OpAllow:
		if t.allowed = enforced(t.results); t.allowed {
			return true, nil // a rule that has not paid is a shadow that denies
		}
		clear(next)
		return true, t.look(now, found)
	case OpPeek:
		t.allowed = enforced(t.results)
		return !t.allowed, nil
	}
	t.allowed = true
	return false, nil
}

// move does what is asked of one rule.
func (t *turn) move(i int, now time.Time, state []byte, next *storage.Change) (err error) {
	d, r, start, buffer := &t.demands[i], &t.results[i].Result, len(t.buffer), t.buffer
	switch t.op {
	case OpAllow:
		buffer, *r, err = d.policy.Step(buffer, state, now, d.cost)
	case OpRefund:
		buffer, *r, err = d.policy.Refund(buffer, state, now, d.cost)
	case OpCharge:
		if d.cost < 0 { // of a reservation, which is less under this rule and more under another
			buffer, *r, err = d.policy.Refund(buffer, state, now, -d.cost)
		} else {
			buffer, *r, err = d.policy.Charge(buffer, state, now, d.cost)
		}
	case OpPeek:
		*r, err = d.policy.Peek(state, now, d.cost)
		return err
	case OpReset:
		if *r = (algo.Result{Allowed: true}); state != nil {
			next.Verb = storage.Delete
		}
		return nil
	}
	if err != nil {
		return err
	}
	t.buffer = buffer
	switch changed := buffer[start:len(buffer):len(buffer)]; {
	case bytes.Equal(changed, state):
	case r.ResetAfter != 0:
		*next = storage.Change{Verb: storage.Put, State: changed, TTL: ttl(r.ResetAfter), Priority: priority(d.policy, changed, now, r)}
	case state != nil: // a full refund: a key never seen
		next.Verb = storage.Delete
	}
	return nil
}

// look replaces the results of rules that would have paid, had no other denied.
func (t *turn) look(now time.Time, found [][]byte) (err error) {
	for i := range t.results {
		if err = t.results[i].look(&t.demands[i], found[i], now); err != nil {
			return err
		}
	}
	return nil
}

// decision is the answer, and the end of the turn.
func (t *turn) decision(how storage.How) Decision {
	d := Decision{Allowed: t.allowed, Results: slices.Clone(t.results), Memory: how.Memory && !t.allowed, Attempts: how.Attempts}
	d.summarize(t.results)
	t.end()
	return d
}

// skewMargin is how much longer than its meaning a record is kept, so that a
// server whose clock runs ahead of the deciding one does not drop it early.
const skewMargin = 10 * time.Second

// ttl is how long to keep a state that lapses after that time; 0 is for ever.
func ttl(reset time.Duration) time.Duration {
	const longest = 100 * 365 * 24 * time.Hour
	if reset > min(longest, math.MaxInt64-skewMargin) {
		return 0
	}
	return reset + skewMargin
}

// priority returns how much of its limit a state has used, given the result of the step that
// made it.
func priority(policy algo.Policy, state []byte, now time.Time, r *algo.Result) storage.Priority {
	if stack, ok := policy.(*Stack); ok {
		return stack.priority(state, now)
	}
	return priorityOf(r)
}

func priorityOf(r *algo.Result) storage.Priority {
	switch {
	case r.Remaining <= 0:
		return storage.UsedUp
	case r.Remaining <= r.Limit/4:
		return storage.UsedMost
	case r.Remaining <= r.Limit/2:
		return storage.UsedHalf
	}
	return storage.UsedLittle
}
