package sluice

import (
	"errors"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

// Policy is an algorithm with its limit and options. See ParsePolicy.
type Policy = algo.Policy

// New returns a limiter that gives each key its own limit, such as "gcra 100/min burst=20".
// New(store, spec) is the same as For(store, PerKey(spec)).
func New(store storage.Store, spec string) (*Limiter[string], error) {
	return For(store, PerKey(spec))
}

// For returns a limiter that applies rules, at least one, to inputs of type T. A call is allowed only
// if all rules allow it. Otherwise no rule charges it. A rule denies nothing if it does not apply to
// the call (see Skip) or if its Shadow is true. A nil store keeps the state in the memory of this
// limiter. If a spec is not valid, the error names its rule and shows the word at fault.
func For[T any](store storage.Store, rules ...Rule[T]) (*Limiter[T], error) {
	if len(rules) == 0 {
		return nil, errors.New("sluice: For needs at least one rule; a limiter without rules would allow every call")
	}
	return Options[T]{}.New(store, rules...)
}

// By returns a rule with a name, a key and the spec of a policy. The key is the part of the
// input that has the limit: an address, an account, a tenant. Calls with equal keys share a
// limit, and an empty key is a key like any other.
//
// Limiters on one store share the state of rules with the same name, so give each rule of a
// program its own name, or each limiter its own Options.Namespace.
func By[T any](name string, key func(T) string, spec string) Rule[T] {
	return Rule[T]{Name: name, Key: key, Spec: spec}
}

// PerKey returns the rule of New: the input is the key. The name of the rule is the spec as
// Policy.String writes it, such as "gcra 100/m" for "gcra 100/min". So limiters on one store share
// limits only if their policies are the same, and a change of the policy makes all units available
// again. To keep the used units when you change the limit or an option, use By with a name of your
// own. With By, too, a change of the algorithm makes all units available again.
func PerKey(spec string) Rule[string] {
	name := spec
	if policy, err := compose.ParsePolicy(spec); err == nil {
		name = policy.String()
	}
	return By(name, func(key string) string { return key }, spec)
}

// ParsePolicy reads a policy from its spec, for Rule.PolicyFor or a unit test.
// [compose.ParsePolicy] lists all options.
func ParsePolicy(spec string) (Policy, error) { return compose.ParsePolicy(spec) }

// MustNew is like New but panics where New returns an error. It is for package variables and tests.
func MustNew(store storage.Store, spec string) *Limiter[string] { return must(New(store, spec)) }

// MustFor is like For but panics where For returns an error. It is for package variables and tests.
func MustFor[T any](store storage.Store, rules ...Rule[T]) *Limiter[T] {
	return must(For(store, rules...))
}

// MustPolicy is like ParsePolicy but panics where ParsePolicy returns an error. It is for package
// variables and tests.
func MustPolicy(spec string) Policy { return must(ParsePolicy(spec)) }

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}
