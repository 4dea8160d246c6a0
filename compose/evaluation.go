package compose

import (
	"bytes"
	"math"
	"sync"
	"time"
	"unsafe"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// opReserve is the operation of an evaluation that also has the rules whose estimate is 0.
const opReserve = driver.Reset + 1

// evaluation applies the demands of the rules to the states of their keys, for one operation.
type evaluation struct {
	op      driver.Op
	demands []demand // one for each rule that applies
	allowed bool
	buffer  []byte // the next states
	keys    []byte // the text of the keys
	request engine.Request
}

var _ engine.Evaluator = (*evaluation)(nil)

var evaluations = sync.Pool{New: func() any {
	e := new(evaluation)
	e.request.Evaluator = e
	return e
}}

func pooledEvaluation(op driver.Op) *evaluation {
	e := evaluations.Get().(*evaluation)
	e.op = op
	return e
}

// demand is what one rule takes for one operation, and the result. Cost is 0 only in a
// reservation, and below 0 only in a settlement that gives back.
type demand struct {
	RuleResult
	rule    int           // the index of the rule; not used by a reset
	program *algo.Program // of Rule.Policy; nil if there is none
}

// addKey adds the key of the last demand, whose text is e.keys from start on. It is valid until the
// evaluation is released.
func (e *evaluation) addKey(start int) {
	e.request.Keys = append(e.request.Keys, unsafe.String(&e.keys[start], len(e.keys)-start))
}

// release returns the evaluation to the pool, unless the engine can still use it.
func (e *evaluation) release() {
	if e.request.InUse() {
		return
	}
	clear(e.demands)
	e.demands, e.keys, e.allowed = e.demands[:0], e.keys[:0], false
	e.request.Reset()
	evaluations.Put(e)
}

// derive returns a new evaluation of another operation on the same keys. It has the demands for
// which cost returns true, with the costs that it returns. It reads no result of e, because the
// engine can still evaluate e for a call that did not wait for the store.
func (e *evaluation) derive(op driver.Op, cost func(i int) (cost int64, keep bool)) *evaluation {
	derived := pooledEvaluation(op)
	for i := range e.demands {
		d := &e.demands[i]
		if cost, keep := cost(i); keep {
			start := len(derived.keys)
			derived.keys = append(derived.keys, e.request.Keys[i]...)
			derived.demands = append(derived.demands, demand{
				RuleResult: RuleResult{Rule: d.Rule, Key: d.Key, Policy: d.Policy, Cost: cost, Shadow: d.Shadow},
				rule:       d.rule, program: d.program,
			})
			derived.addKey(start)
		}
	}
	return derived
}

// prepare returns the request for an engine. It has programs if the store runs them.
func (e *evaluation) prepare(programs bool) *engine.Request {
	r := &e.request
	r.Uses = r.Uses[:0]
	for i := range e.demands {
		d := &e.demands[i]
		use := engine.Use{Op: e.operation(d.Cost), Cost: max(d.Cost, -d.Cost), Shadow: d.Shadow}
		if programs && (use.Op != driver.Peek && use.Op != driver.Reset) {
			if use.Program = d.program; use.Program == nil {
				use.Program = programOf(d.Policy)
			}
		}
		r.Uses = append(r.Uses, use)
	}
	return r
}

// operation returns the operation on one key. A settlement can charge one rule and refund another.
func (e *evaluation) operation(cost int64) driver.Op {
	if e.op == driver.Charge && cost < 0 {
		return driver.Refund
	}
	return e.op
}

// Evaluate implements engine.Evaluator.
func (e *evaluation) Evaluate(now time.Time, states [][]byte, changes []driver.Change) (applied int, err error) {
	e.buffer, e.allowed = e.buffer[:0], true
	for i := range e.demands {
		d := &e.demands[i]
		d.Err = nil
		if err := e.apply(d, now, states[i], &changes[i]); err != nil {
			if err = d.fail(err); err != nil {
				return 0, err
			}
		} else if e.op == driver.Refund || e.op == driver.Charge || e.op == driver.Allow && d.Allowed {
			applied++
		}
		e.allowed = e.allowed && (d.Allowed || d.Shadow)
	}
	if e.allowed || e.op != driver.Allow {
		e.allowed = e.allowed || e.op != driver.Peek
		return applied, nil
	}
	clear(changes)
	for i := range e.demands { // the results of the rules that allowed the call count a charge
		if d := &e.demands[i]; d.Allowed {
			if err := d.peek(now, states[i]); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

// apply applies the operation to one key.
func (e *evaluation) apply(d *demand, now time.Time, state []byte, change *driver.Change) (err error) {
	start, buffer := len(e.buffer), e.buffer
	switch e.operation(d.Cost) {
	case driver.Allow:
		buffer, d.Result, err = d.Policy.Step(buffer, state, now, d.Cost)
	case driver.Refund:
		buffer, d.Result, err = d.Policy.Refund(buffer, state, now, max(d.Cost, -d.Cost))
	case driver.Charge:
		buffer, d.Result, err = d.Policy.Charge(buffer, state, now, d.Cost)
	case driver.Peek:
		d.Result, err = d.Policy.Peek(state, now, d.Cost)
		return err
	case driver.Reset:
		if d.Result = (algo.Result{Allowed: true}); state != nil {
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
	case d.ResetAfter != 0:
		*change = driver.Change{Verb: driver.Put, State: next, TTL: ttl(d.ResetAfter), Priority: priority(d.Policy, next, now, &d.Result)}
	case state != nil: // a refund has filled the limit: the state is that of a new key
		change.Verb = driver.Delete
	}
	return nil
}

// peek replaces the result by that of a Peek.
func (d *demand) peek(now time.Time, state []byte) (err error) {
	if d.Result, err = d.Policy.Peek(state, now, max(d.Cost, 1)); err != nil {
		return d.fail(err)
	}
	return nil
}

// Denied implements engine.Evaluator.
func (e *evaluation) Denied() (retryAfter time.Duration, denied bool) {
	for i := range e.demands {
		if d := &e.demands[i]; !d.Shadow {
			retryAfter = max(retryAfter, d.RetryAfter)
		}
	}
	return retryAfter, e.op == driver.Allow && !e.allowed
}

// Confirm implements engine.Evaluator. The units that were refilled before the charge are not
// known, so Available includes them and Refilled does not.
func (e *evaluation) Confirm(now time.Time, states [][]byte) error {
	for i := range e.demands {
		d := &e.demands[i]
		if err := d.peek(now, states[i]); err != nil {
			return err
		}
		if d.Err != nil {
			continue
		}
		d.Allowed, d.RetryAfter = true, 0
		if e.operation(d.Cost) != driver.Refund && !d.Shadow { // a shadow rule that denied has not charged
			d.Paid = d.Cost
			d.Available += d.Cost
		}
	}
	e.allowed = true
	return nil
}

// writeDecision writes the decision to d, which is zero but for d.Results. The results go to the
// memory of d.Results if they fit. That memory stays on the caller's stack, because the compiler
// sees that d.Results is assigned a slice of itself.
func (e *evaluation) writeDecision(d *Decision, stats engine.Stats) {
	if n := len(e.demands); n <= len(d.Results) {
		d.Results = d.Results[:n]
	} else {
		d.Results = make([]RuleResult, n)
	}
	for i := range d.Results {
		d.Results[i] = e.demands[i].RuleResult
	}
	d.Allowed, d.Cached, d.Attempts = e.allowed, stats.Cached, stats.Attempts
	d.summarize()
	if len(d.Results) == 0 {
		d.Results = nil
	}
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

// skewMargin is how long a store keeps a record after its ResetAfter. So a server whose clock
// is ahead of the clock that decides does not drop the record early.
const skewMargin = 10 * time.Second

// ttl returns how long a store must keep a state with that ResetAfter. 0 means for ever.
func ttl(reset time.Duration) time.Duration {
	const longest = 100 * 365 * 24 * time.Hour
	if reset > min(longest, math.MaxInt64-skewMargin) {
		return 0
	}
	return reset + skewMargin
}

// priority returns the eviction priority of a state, which depends on how much of the limit is
// used. r is the result of the step that made the state.
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
