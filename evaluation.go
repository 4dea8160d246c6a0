package sluice

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/clockstep"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// evaluate applies an operation to the records of the rules that apply. It writes the results, and what to store to Next of
// the items. results[i] and items[i] belong to one rule. The rule, key, policy, cost and shadow of a result are set before.
// A Charge whose cost is below 0 is a refund.
//
// If a call is denied, no rule charges it. But a rule that denies it can change its state or the time for which its record is
// kept; see apply. moves says that a state which is far ahead of now is moved, also after a denial; see callMoved.
//
// applied is how many steps were applied; see driver.Request. With an error nothing may be stored.
func evaluate(op driver.Op, now time.Time, moves bool, results []RuleResult, items []driver.Item) (applied int, allowed bool, err error) {
	allowed = true
	for i := range results {
		r := &results[i]
		if err := r.apply(op, now, moves, &items[i]); err != nil {
			return 0, false, err
		}
		if r.Err == nil && (op == driver.Refund || op == driver.Charge || op == driver.Allow && r.Allowed) {
			applied++
		}
		allowed = allowed && (r.Allowed || r.Shadow)
	}
	if allowed || op != driver.Allow {
		return applied, allowed, nil
	}
	for i := range results { // the results of the rules that allowed the call count a charge
		r := &results[i]
		if r.Allowed {
			items[i].Next.Verb = driver.Keep
			if err := r.apply(driver.Peek, now, moves, &items[i]); err != nil {
				return 0, false, err
			}
			// Later the state may be less than clockstep.Most ahead. It would then deny the call after RetryAfter. The state of a
			// Holder stays: a release finds its units by their time, and they never count for more.
			if r.moved && !isHolder(r.Policy) {
				if moved, err := clockstep.Move(r.Policy, items[i].Found.State, now); err == nil {
					r.put(&items[i], moved, now)
				}
			}
		}
	}
	return 0, false, nil
}

// evaluateUpTo allows as many of most calls as fit now, the same number under all enforced rules. The costs of the results are those
// of one call. If not even one call fits, it evaluates the denial of one. A shadow rule charges as many of the allowed calls as it would
// allow, and denies if these are not all.
func evaluateUpTo(most int64, now time.Time, moves bool, results []RuleResult, items []driver.Item) (calls int64, applied int, err error) {
	calls = most
	for i := range results {
		if r := &results[i]; !r.Shadow {
			calls = r.fitting(calls, now, moves, &items[i])
		}
	}
	charged := make([]int64, len(results)) // the calls that each rule charges
	for i := range results {
		r := &results[i]
		if charged[i] = calls; r.Shadow {
			charged[i] = r.fitting(calls, now, moves, &items[i])
		}
		charged[i] = max(charged[i], 1)
		r.Cost *= charged[i]
	}
	_, allowed, err := evaluate(driver.Allow, now, moves, results, items)
	if err != nil || !allowed {
		return 0, 0, err
	}
	calls = max(calls, 1) // a policy of a user can allow and charge a call for which it reported nothing left
	for i := range results {
		if r := &results[i]; r.Allowed {
			applied += int(charged[i])
			if charged[i] < calls {
				denial, err := r.Policy.Peek(items[i].Next.State, now, r.Cost/charged[i])
				if r.Allowed, r.RetryAfter = false, denial.RetryAfter; err != nil {
					_ = r.fail(err) // it is a shadow rule
				}
			}
		}
	}
	return calls, applied, nil
}

// fitting returns how many of most calls a rule allows now. It is 0 if the policy fails.
func (r *RuleResult) fitting(most int64, now time.Time, moves bool, item *driver.Item) int64 {
	if err := r.apply(driver.Peek, now, moves, item); err != nil || !r.Allowed {
		return 0
	}
	return min(most, max(0, r.Remaining)/r.Cost)
}

// operation returns the operation on one key. A settlement can charge one rule and refund another.
func operation(op driver.Op, cost int64) driver.Op {
	if cost < 0 {
		return driver.Refund
	}
	return op
}

// apply is applyPolicy for a shadow rule too, whose error becomes part of the result.
func (r *RuleResult) apply(op driver.Op, now time.Time, moves bool, item *driver.Item) error {
	r.Err = nil
	if err := r.applyPolicy(op, now, moves, item); err != nil {
		return r.fail(err)
	}
	return nil
}

// applyPolicy applies the operation to one key. If the policy denies and changes its state, such as a count of denials, the new state
// is stored. If the record would expire before the ResetAfter of a denial, it is stored again. This happens if the limit was
// lowered after the record was written.
func (r *RuleResult) applyPolicy(op driver.Op, now time.Time, moves bool, item *driver.Item) error {
	found, change := &item.Found, &item.Next
	if op == driver.Reset {
		if r.Result = (algo.Result{Allowed: true}); found.Version != 0 {
			change.Verb = driver.Delete
		}
		return nil
	}
	next, err := r.callPolicy(op, change.State, found.State, now)
	// Held units are found by the time at which they were taken, so their state is not moved.
	if r.moved = moves && !r.held && r.Skew > clockstep.Most; r.moved {
		next, err = r.callMoved(op, change.State, found.State, now)
	}
	switch {
	case err != nil || op == driver.Peek:
		return err
	case r.ResetAfter < 0:
		return fmt.Errorf("the policy %v returned the ResetAfter %v; it must not be negative", r.Policy, r.ResetAfter)
	case bytes.Equal(next, found.State) && (r.Allowed || isKept(found, r.ResetAfter)):
	default:
		r.put(item, next, now)
	}
	return nil
}

// put stores the next state, which has the result r.
func (r *RuleResult) put(item *driver.Item, next []byte, now time.Time) {
	switch change := &item.Next; {
	case r.ResetAfter != 0:
		change.Verb, change.State, change.TTL = driver.Put, next, ttl(r.ResetAfter)
		change.Priority = priority(r.Policy, next, now, &r.Result)
	case item.Found.Version != 0: // all units are available: the state is that of a new key
		change.Verb = driver.Delete
	}
}

// callMoved is callPolicy after the state, which is ahead of now by more than clockstep.Most, was moved to now. Skew still says how
// far it was ahead.
func (r *RuleResult) callMoved(op driver.Op, dst, state []byte, now time.Time) (next []byte, err error) {
	skew := r.Skew
	if state, err = clockstep.Move(r.Policy, state, now); err == nil {
		next, err = r.callPolicy(op, dst, state, now)
		r.Skew = skew
	}
	return next, err
}

// callPolicy calls the method of the policy for the operation. A Peek returns dst.
func (r *RuleResult) callPolicy(op driver.Op, dst, state []byte, now time.Time) (next []byte, err error) {
	cost := r.Cost
	switch operation(op, cost) {
	case driver.Allow:
		dst, r.Result, err = r.Policy.Step(dst, state, now, cost)
	case driver.Refund:
		dst, r.Result, err = r.Policy.Refund(dst, state, now, max(cost, -cost))
	case driver.Charge:
		dst, r.Result, err = r.Policy.Charge(dst, state, now, cost)
	case driver.Peek:
		r.Result, err = r.Policy.Peek(state, now, cost)
	}
	r.Cost = cost // a settlement has refunds with a negative cost, and a Result is not valid if there is an error
	return dst, err
}

// evaluation is an operation that the engine decides. It has its own memory, because the engine can still use it after
// the caller has returned.
type evaluation struct {
	op       driver.Op
	results  []RuleResult
	upTo     int64   // 0 for all or none
	costs    []int64 // of one call, if upTo is set
	calls    int64   // that are allowed, if upTo is set
	allowed  bool
	at       time.Time // of the last evaluation
	oneClock bool      // only the store's own clock decides
}

var _ engine.Evaluator = (*evaluation)(nil)

// Evaluate implements engine.Evaluator. A program does not move states, so a denial on a state that is far ahead must be decided
// in Go.
func (e *evaluation) Evaluate(now time.Time, items []driver.Item, replays bool) (applied int, err error) {
	e.at = now
	e.restoreCosts()
	if e.upTo == 0 {
		applied, e.allowed, err = evaluate(e.op, now, e.oneClock && !replays, e.results, items)
	} else {
		e.calls, applied, err = evaluateUpTo(e.upTo, now, e.oneClock && !replays, e.results, items)
		e.allowed = e.calls > 0
	}
	isAhead := func(r RuleResult) bool { return !r.Allowed && r.Skew > clockstep.Most }
	if err == nil && replays && e.oneClock && !e.allowed && slices.ContainsFunc(e.results, isAhead) {
		err = engine.ErrDeclined
	}
	for i := range e.results {
		if replays && e.allowed && e.op == driver.Allow && !e.results[i].Allowed && e.results[i].Paid == 0 { // the server stores nothing for a shadow rule that denies
			items[i].Next.Verb = driver.Keep
		}
	}
	return applied, err
}

// restoreCosts undoes what evaluateUpTo did to the costs.
func (e *evaluation) restoreCosts() {
	for i := range e.costs {
		e.results[i].Cost = e.costs[i]
	}
}

// Denied implements engine.Evaluator. Another process can give held units back at any time, so a rule for them does not count.
func (e *evaluation) Denied() (retryAfter time.Duration, denied bool) {
	for i := range e.results {
		r := &e.results[i]
		if !r.Shadow && !r.held && !isHolder(r.Policy) {
			retryAfter = max(retryAfter, r.RetryAfter)
		}
	}
	return retryAfter, e.op == driver.Allow && !e.allowed
}

// skewMargin is how long a store keeps a record after its ResetAfter. So a server whose clock
// is ahead of the clock that decides does not drop the record early.
const skewMargin = 10 * time.Second

// ttl returns how long a store must keep a state with that ResetAfter. 0 means for ever.
func ttl(reset time.Duration) time.Duration {
	const longest = 100 * 365 * 24 * time.Hour
	if reset > longest {
		return 0
	}
	return reset + skewMargin
}

// isKept reports whether a record is kept until its ResetAfter has passed.
func isKept(found *storage.Record, reset time.Duration) bool {
	return found.TTL == 0 || found.TTL >= reset
}

// priority returns the eviction priority of a state, which depends on how much of the limit is
// used. r is the result of the step that made the state.
func priority(policy algo.Policy, state []byte, now time.Time, r *algo.Result) storage.Priority {
	switch policy := policy.(type) {
	case *compose.Penalty:
		end, own, err := policy.Split(state)
		if err != nil || end.After(now) {
			return storage.UsedUp
		}
		return priority(policy.Inner(), own, now, r)
	case *compose.Stack:
		return stackPriority(policy, state, now)
	}
	return priorityOf(r)
}

// stackPriority returns the priority of the part with the greatest
// ResetAfter, or that of another part up to UsedHalf. A part that is used up but soon full
// again must not keep a key longer than keys whose slow parts are used up.
func stackPriority(stack *compose.Stack, state []byte, now time.Time) storage.Priority {
	var longest time.Duration
	var ofLongest, ofOthers storage.Priority
	for part, own := range stack.Split(state) {
		r, err := part.Peek(own, now, 1)
		if err != nil {
			return storage.UsedUp
		}
		switch p := priorityOf(&r); {
		case r.ResetAfter > longest:
			ofOthers = max(ofOthers, ofLongest)
			longest, ofLongest = r.ResetAfter, p
		case r.ResetAfter == longest:
			ofLongest = max(ofLongest, p)
		default:
			ofOthers = max(ofOthers, p)
		}
	}
	return max(ofLongest, min(ofOthers, storage.UsedHalf))
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
