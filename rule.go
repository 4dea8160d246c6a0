package sluice

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/errtext"
	"github.com/sluice-go/sluice/internal/policy"
)

// Rule applies a policy to the keys of inputs. Its functions are called once for each call. They must be safe for concurrent
// use, and must not block: look up the plan of a customer before the call, and put it into the input.
type Rule[T any] struct {
	// Name is part of the stored key. Limiters on one store share the states of rules with the same name. If you change the limit,
	// used units stay used. If you change the algorithm, all units are available again; see compose.Kind.
	Name string
	// Key returns the key of an input, such as its address: any bytes, of any length. Each key has its own limit. Nil means one
	// limit for all inputs.
	Key func(T) string
	// Spec is the policy as text, such as "gcra 100/m burst=20". Set exactly one of Spec, Policy and PolicyFor.
	Spec string
	// Policy is the policy for all inputs.
	Policy algo.Policy
	// PolicyFor returns the policy for an input, or [Skip] as the error if the rule does not apply. With another error, or a nil
	// policy, the decision fails with a RuleError, even if the rule is a Shadow. Policies of the same kind share the state of a
	// key; see compose.Kind. So for limits by route, Key must return the route too.
	PolicyFor func(T) (algo.Policy, error)
	// Cost returns how many units one call costs under this rule. Nil means 1. A cost of 0 makes the call free, and one below 0 is
	// an error.
	Cost func(T) int64
	// Shadow makes the rule report denials in Decision.Results without denying calls. It charges a call that the limiter allows,
	// unless the rule itself would deny it. If its policy cannot read the state, RuleResult.Err has the reason. If a program
	// decides, a shadow rule that denies an allowed call stores nothing: no count of denials, and no correction after a new limit
	// or a step of the clock.
	Shadow bool

	texts   *ruleTexts    // for keys
	ownText string        // that of texts for Policy
	program *algo.Program // of Policy; nil if the store cannot run it
}

// Skip is the error of Rule.PolicyFor if the rule does not apply to an input. Return it unwrapped.
var Skip = errors.New("sluice: the rule does not apply")

var errNoPolicy = errors.New("PolicyFor returned no policy and no error; return Skip as the error if the rule does not apply")

// prepare parses Spec, and checks the rule with that index.
func (r *Rule[T]) prepare(index int) error {
	given := 0
	for _, set := range [...]bool{r.Spec != "", r.Policy != nil, r.PolicyFor != nil} {
		if set {
			given++
		}
	}
	if r.Spec != "" {
		var err error
		if r.Policy, err = compose.ParsePolicy(r.Spec); err != nil {
			return specErrorOf(r.Name, err.(*compose.SpecError)) // it returns no other errors
		}
	}
	switch {
	case given == 0 && r.Name == "": // New with an empty spec
		return fmt.Errorf("sluice: rule %d has no policy; set Spec, Policy or PolicyFor", index)
	case r.Name == "":
		return fmt.Errorf("sluice: rule %d: Name must not be empty", index)
	case given == 0:
		return fmt.Errorf("sluice: rule %q has no policy; set Spec, Policy or PolicyFor", r.Name)
	case given > 1:
		return fmt.Errorf("sluice: rule %q has more than one of Spec, Policy and PolicyFor; set one", r.Name)
	case r.PolicyFor != nil:
		return nil
	}
	if err := policy.Check(r.Policy); err != nil {
		return fmt.Errorf("sluice: the policy of rule %q denies everything: %w", r.Name, err)
	}
	return nil
}

// specErrorOf adds the rule to an error, and the lines of Caret if a terminal can show them.
func specErrorOf(rule string, err *compose.SpecError) error {
	err.Rule = rule
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(err.Spec) > errtext.MaxQuoted || strings.ContainsFunc(err.Spec, unprintable) {
		return err
	}
	return fmt.Errorf("%w\n%s", err, err.Caret())
}

// policyFor returns the policy of PolicyFor. It is nil if there is an error, or if the rule does not apply.
func (r *Rule[T]) policyFor(in T) (algo.Policy, error) {
	p, err := r.PolicyFor(in)
	switch {
	case err == Skip:
		return nil, nil
	case err != nil:
		return nil, &RuleError{Rule: r.Name, Err: fmt.Errorf("PolicyFor: %w", err)}
	case p == nil || p == (*compose.Stack)(nil) || p == (*compose.Penalty)(nil): // as a map of plans returns for an unknown one
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

// cost returns the cost of n calls.
func (r *Rule[T]) cost(in T, n int64) (int64, error) {
	if r.Cost == nil {
		return n, nil
	}
	cost := r.Cost(in)
	if cost < 0 {
		return 0, &RuleError{Rule: r.Name, Err: costError(fmt.Sprintf("Cost returned %d; return 0 for a free call", cost))}
	}
	return multiply(cost, n), nil
}

// multiply returns the cost of n calls. A product above MaxInt64 becomes MaxInt64, which is
// more than any capacity.
func multiply(cost, n int64) int64 {
	if n > 0 && cost > math.MaxInt64/n {
		return math.MaxInt64
	}
	return cost * n
}

// RuleError reports that a rule could not decide. Options.OnFailure does not apply.
type RuleError struct {
	Rule string
	Key  string // the key, which may be a secret; empty if the rule failed before it found one
	Err  error  // algo.ErrState, algo.ErrStateVersion or algo.ErrCost, or an error of PolicyFor or of your own policy
}

// Error returns the rule, the key cut to 64 characters, and the error.
func (e *RuleError) Error() string {
	remedy := ""
	if errors.Is(e.Err, algo.ErrState) {
		remedy = "; the stored state is damaged, or a policy of your own with the same first word in its String wrote it; Reset the key"
	}
	key := ""
	if e.Key != "" {
		key = fmt.Sprintf(", key %.64q", e.Key)
	}
	return fmt.Sprintf("sluice: rule %q%s: %v%s", e.Rule, key, e.Err, remedy)
}

// Unwrap returns Err.
func (e *RuleError) Unwrap() error { return e.Err }
