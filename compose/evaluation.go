package compose

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// evaluation is one decision of a limiter: what its rules ask, and their results. It is the
// only place where rules meet states.
type evaluation struct {
	op      Op
	demands []demand
	results []RuleResult
	allowed bool
	buffer  []byte // the next states
	keys    []byte // the text of the keys, if the store keeps none
	request engine.Request
}

var _ engine.Evaluator = (*evaluation)(nil)

var evaluations = sync.Pool{New: func() any {
	e := new(evaluation)
	e.request.Evaluator = e
	return e
}}

func newEvaluation(op Op) *evaluation {
	e := evaluations.Get().(*evaluation)
	e.op = op
	return e
}

// add adds what a rule asks for, under a key of the store.
func (e *evaluation) add(d demand, key, rule string, shadow bool) {
	e.demands, e.request.Keys = append(e.demands, d), append(e.request.Keys, key)
	e.results = append(e.results, RuleResult{Rule: rule, Key: d.key, Policy: d.policy, Cost: d.cost, Shadow: shadow})
}

// key returns a key of the store. If it is brief, it is valid until the evaluation is released: for a memory.Store,
// which keeps a hash and not the key.
func (e *evaluation) key(brief bool, group string, parts ...string) string {
	if !brief {
		return driver.Key(group, parts...)
	}
	start := len(e.keys)
	e.keys = driver.AppendKey(e.keys, group, parts...)
	return unsafe.String(&e.keys[start], len(e.keys)-start)
}

// only removes the demands that are not wanted.
func (e *evaluation) only(wanted func(i int) bool) {
	kept, keys := 0, e.request.Keys
	for i := range e.results {
		if wanted(i) {
			e.demands[kept], keys[kept], e.results[kept] = e.demands[i], keys[i], e.results[i]
			kept++
		}
	}
	clear(e.demands[kept:])
	clear(keys[kept:])
	clear(e.results[kept:])
	e.demands, e.request.Keys, e.results = e.demands[:kept], keys[:kept], e.results[:kept]
}

// release lets the memory of the evaluation be used again, unless the engine may still use it.
func (e *evaluation) release() {
	if e.request.InUse() {
		return
	}
	clear(e.demands)
	clear(e.results)
	e.demands, e.results, e.keys, e.allowed = e.demands[:0], e.results[:0], e.keys[:0], false
	e.request.Reset()
	evaluations.Put(e)
}

// again is the same evaluation afresh.
func (e *evaluation) again() *evaluation {
	a := newEvaluation(e.op)
	a.demands = append(a.demands, e.demands...)
	for i := range e.results {
		r := &e.results[i]
		a.request.Keys = append(a.request.Keys, strings.Clone(e.request.Keys[i]))
		a.results = append(a.results, RuleResult{Rule: r.Rule, Key: r.Key, Policy: r.Policy, Cost: r.Cost, Shadow: r.Shadow})
	}
	return a
}

// times is the evaluation of n calls, where e is that of one.
func (e *evaluation) times(op Op, n int64) *evaluation {
	a := e.again()
	a.op = op
	for i := range a.demands {
		a.ask(i, times(a.demands[i].cost, n))
	}
	return a
}

// ask sets the cost under a rule.
func (e *evaluation) ask(i int, cost int64) { e.demands[i].cost, e.results[i].Cost = cost, cost }

// prepare fills in the request for an engine. Its uses have programs if the store runs them.
func (e *evaluation) prepare(programs bool) *engine.Request {
	r := &e.request
	r.Uses = r.Uses[:0]
	for i := range e.demands {
		d := &e.demands[i]
		use := engine.Use{Op: e.use(d.cost), Cost: max(d.cost, -d.cost), Shadow: e.results[i].Shadow}
		if programs && (use.Op != driver.Peek && use.Op != driver.Reset) {
			if use.Program = d.program; use.Program == nil {
				use.Program = programOf(d.policy)
			}
		}
		r.Uses = append(r.Uses, use)
	}
	return r
}

// use returns what the operation asks of a key. A settlement can charge one rule and refund another.
func (e *evaluation) use(cost int64) driver.Op {
	switch e.op {
	case OpRefund:
		return driver.Refund
	case OpCharge:
		if cost < 0 {
			return driver.Refund
		}
		return driver.Charge
	case OpPeek:
		return driver.Peek
	case OpReset:
		return driver.Reset
	}
	return driver.Allow
}

// Evaluate implements engine.Evaluator.
func (e *evaluation) Evaluate(now time.Time, states [][]byte, changes []driver.Change) (applied int, err error) {
	e.buffer = e.buffer[:0]
	for i := range e.demands {
		r := &e.results[i]
		r.Err = nil
		if err := e.move(i, now, states[i], &changes[i]); err != nil {
			if err = r.broken(err); err != nil {
				return 0, err
			}
		} else if e.applies(r) {
			applied++
		}
	}
	e.allowed = e.op != OpAllow && e.op != OpPeek || enforced(e.results)
	if e.op == OpAllow && !e.allowed {
		clear(changes)
		return 0, e.look(now, states)
	}
	return applied, nil
}

// applies reports whether a result is that of a step that takes or gives units.
func (e *evaluation) applies(r *RuleResult) bool {
	return e.op == OpRefund || e.op == OpCharge || e.op == OpAllow && r.Allowed
}

// move does what is asked of one rule.
func (e *evaluation) move(i int, now time.Time, state []byte, change *driver.Change) (err error) {
	d, r, start, buffer := &e.demands[i], &e.results[i].Result, len(e.buffer), e.buffer
	switch e.use(d.cost) {
	case driver.Allow:
		buffer, *r, err = d.policy.Step(buffer, state, now, d.cost)
	case driver.Refund:
		buffer, *r, err = d.policy.Refund(buffer, state, now, max(d.cost, -d.cost))
	case driver.Charge:
		buffer, *r, err = d.policy.Charge(buffer, state, now, d.cost)
	case driver.Peek:
		*r, err = d.policy.Peek(state, now, d.cost)
		return err
	case driver.Reset:
		if *r = (algo.Result{Allowed: true}); state != nil {
			change.Verb = driver.Delete
		}
		return nil
	}
	if err != nil {
		return err
	}
	e.buffer = buffer
	switch next := buffer[start:len(buffer):len(buffer)]; {
	case bytes.Equal(next, state):
	case r.ResetAfter != 0:
		*change = driver.Change{Verb: driver.Put, State: next, TTL: ttl(r.ResetAfter), Priority: priority(d.policy, next, now, r)}
	case state != nil: // a full refund: a key never seen
		change.Verb = driver.Delete
	}
	return nil
}

// look replaces the results of rules that would have paid if no other had denied.
func (e *evaluation) look(now time.Time, states [][]byte) (err error) {
	for i := range e.results {
		if err = e.results[i].look(&e.demands[i], states[i], now); err != nil {
			return err
		}
	}
	return nil
}

// Denied implements engine.Evaluator.
func (e *evaluation) Denied() (retryAfter time.Duration, denied bool) {
	for i := range e.results {
		if r := &e.results[i]; !r.Shadow {
			retryAfter = max(retryAfter, r.RetryAfter)
		}
	}
	return retryAfter, e.op == OpAllow && !e.allowed
}

// Confirm implements engine.Evaluator. It does not know how many units were refilled before the
// payment, so Available includes them.
func (e *evaluation) Confirm(now time.Time, states [][]byte) (err error) {
	for i := range e.results {
		d, r := &e.demands[i], &e.results[i]
		if r.Result, err = d.policy.Peek(states[i], now, max(d.cost, 1)); err != nil {
			if err = r.broken(err); err != nil {
				return err
			}
			continue
		}
		if r.Allowed, r.RetryAfter = true, 0; e.use(d.cost) != driver.Refund && !r.Shadow { // a shadow may not have paid
			r.Paid = d.cost
			r.Available += d.cost
		}
	}
	e.allowed = true
	return nil
}

// decision is the answer.
func (e *evaluation) decision(how engine.How) Decision {
	d := Decision{Allowed: e.allowed, Results: slices.Clone(e.results), Cached: how.Cached, Attempts: how.Attempts}
	d.summarize(e.results)
	return d
}

// programOf returns the program of a policy, or nil.
func programOf(policy algo.Policy) *algo.Program {
	if portable, ok := policy.(algo.Portable); ok {
		if p, ok := portable.Program(); ok {
			return &p
		}
	}
	return nil
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
