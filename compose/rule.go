package compose

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Rule applies a policy to whatever Key finds in the input. Its functions are
// called before anything is locked or sent, once for every decision; they must be
// safe for concurrent use. They must not wait: look up a customer's plan before, and
// put it into the input.
type Rule[T any] struct {
	// Name is part of the stored key, and of every report. It is required, and
	// no other rule of the limiter has it. A rule that changes its algorithm, or
	// the number or order of the parts of its all(), needs a new name, because its
	// policy could not read the states it finds.
	Name string
	// Key finds what is limited: an address, a customer, a route. Any bytes are
	// legal, of any length. Inputs with an empty key share a limit, as with any other key. Nil
	// means one limit for everything.
	Key func(T) string
	// Spec is the policy as text, such as "gcra 100/m burst=20", in the form that
	// ParseRulePolicy reads. New parses it. A rule has exactly one of Spec, Policy and
	// PolicyFor.
	Spec string
	// Policy is the same for everyone. One with a cost of its own is refused,
	// because what a call costs is Cost, and so is a zero one, which denies everything.
	Policy algo.Policy
	// PolicyFor finds the policy for an input, by plan, method or route. If the rule
	// does not apply to the input, return Skip as the error. A nil policy without an
	// error is an error too: a plan that is missing from a map must not switch the
	// limit off. An error fails the decision as a RuleError, whatever
	// Options.OnFailure says, and also if the rule is a Shadow. Where policies of
	// different algorithms may meet under one key, Key must tell them apart.
	PolicyFor func(T) (algo.Policy, error)
	// Cost is the units that one call takes of this rule; nil means 1. A cost
	// of 0 makes the call free under this rule, and a negative one is refused
	// with algo.ErrCost. The cost in the options of a policy plays no part
	// here: New refuses it in Policy, and cannot know of it in what PolicyFor finds.
	Cost func(T) int64
	// Shadow rules are decided, stored and reported, but deny nothing. A shadow that cannot
	// decide, because its policy cannot read the state, says so in the Err of its result.
	Shadow bool

	program *algo.Program // of Policy, if the store can run it
}

// Skip is the error that Rule.PolicyFor returns if the rule does not apply to an input.
// The limiter then decides by the other rules. Return it as it is: an error that wraps
// Skip fails the decision like any other.
var Skip = errors.New("compose: the rule does not apply")

var errNoPolicy = errors.New("PolicyFor returned no policy and no error; return Skip as the error if the rule does not apply")

// prepare parses the spec of the rule, and returns what is wrong with the rule. The rule is
// the index-th.
func (r *Rule[T]) prepare(index int) error {
	if r.Name == "" {
		return fmt.Errorf("compose: rule %d: Name must not be empty", index)
	}
	given := r.policies()
	if r.Spec != "" {
		if err := r.parseSpec(); err != nil {
			return err
		}
	}
	switch {
	case given == 0:
		return fmt.Errorf("compose: rule %q has no policy; set Spec, Policy or PolicyFor", r.Name)
	case given > 1:
		return fmt.Errorf("compose: rule %q has more than one of Spec, Policy and PolicyFor; set one", r.Name)
	case r.PolicyFor != nil:
		return nil
	}
	if err := barren(r.Policy); err != nil {
		return fmt.Errorf("compose: the policy of rule %q denies everything: %w", r.Name, err)
	}
	if ownCost(r.Policy) {
		return fmt.Errorf("compose: rule %q: cost= has no effect in the policy of a rule, %v; want Rule.Cost", r.Name, r.Policy)
	}
	return nil
}

// policies counts in how many ways the rule says what its policy is.
func (r *Rule[T]) policies() (n int) {
	for _, given := range [...]bool{r.Spec != "", r.Policy != nil, r.PolicyFor != nil} {
		if given {
			n++
		}
	}
	return n
}

// parseSpec sets Policy to what Spec says.
func (r *Rule[T]) parseSpec() (err error) {
	if r.Policy, err = ParseRulePolicy(r.Spec); err == nil {
		return nil
	}
	var bad *SpecError
	if !errors.As(err, &bad) {
		return err
	}
	bad.Rule = r.Name
	return bad.withCaret()
}

// barren says why a policy can never allow, if it was not made by New or All. It denies
// as it should, but nobody means to have a rule of it.
func barren(p algo.Policy) error {
	if stack, ok := p.(*Stack); ok && stack.Len() == 0 {
		return errors.New("a Stack without parts")
	}
	r, err := p.Peek(nil, time.Unix(0, 0), 1)
	if err != nil || r.Allowed { // whatever it says is its limit, if it is somebody's own
		return nil
	}
	return p.Limit().Validate()
}

// ownCost reports whether a policy, or a part of it, has a cost of its own, other than
// 1. Step takes it for a cost of 0, which a Limiter never asks for.
func ownCost(p algo.Policy) bool {
	if stack, ok := p.(*Stack); ok {
		return slices.ContainsFunc(stack.all(), ownCost)
	}
	r, err := p.Peek(nil, time.Unix(0, 0), 0)
	return err == nil && r.Cost != 1
}

// demand is what one rule asks for in one decision.
type demand struct {
	rule    int // among those of the limiter
	policy  algo.Policy
	program *algo.Program // of a policy that never changes, or nil
	cost    int64         // at least 1; 0 in an estimate that is free; below 0 where a settlement gives back
	key     string
}

// demand finds what the rule asks of n calls. A nil policy asks for nothing: the rule
// does not apply, or the calls are free.
func (r *Rule[T]) demand(in T, n int64) (demand, error) { return r.demandOf(OpAllow, in, n) }

// demandOf is demand for any operation. A reset needs no cost. A reservation keeps the
// rules under which the estimate is free, because their actual cost may not be 0.
func (r *Rule[T]) demandOf(op Op, in T, n int64) (d demand, err error) {
	if d.policy, err = r.policy(in); d.policy == nil {
		return demand{}, err
	}
	if op != OpReset {
		if d.cost, err = r.cost(in, n); err != nil || d.cost == 0 && op != opReserve {
			return demand{}, err
		}
	}
	d.key = r.key(in)
	return d, nil
}

// policy is the policy for an input. It is nil if there is an error or the rule does
// not apply.
func (r *Rule[T]) policy(in T) (algo.Policy, error) {
	if r.PolicyFor == nil {
		return r.Policy, nil
	}
	p, err := r.PolicyFor(in)
	switch {
	case err == Skip:
		return nil, nil
	case err != nil:
		return nil, &RuleError{Rule: r.Name, Err: fmt.Errorf("PolicyFor: %w", err)}
	case p == nil:
		return nil, &RuleError{Rule: r.Name, Err: errNoPolicy}
	}
	return p, nil
}

func (r *Rule[T]) key(in T) string {
	if r.Key == nil {
		return ""
	}
	return r.Key(in)
}

func (r *Rule[T]) cost(in T, n int64) (int64, error) {
	if r.Cost == nil {
		return n, nil
	}
	cost := r.Cost(in)
	if cost < 0 {
		return 0, &RuleError{Rule: r.Name, Err: fmt.Errorf("cost is %d: %w", cost, algo.ErrCost)}
	}
	return times(cost, n), nil
}

// times is the cost of n calls, or more than any capacity.
func times(cost, n int64) int64 {
	if n > 0 && cost > math.MaxInt64/n {
		return math.MaxInt64
	}
	return cost * n
}
