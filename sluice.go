package sluice

import (
	"errors"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

// Policy is an algorithm with its limit and options. See ParsePolicy.
type Policy = algo.Policy

// New is For(store, PerKey(spec)): it gives each key its own limit.
func New(store storage.Store, spec string) (*Limiter[string], error) {
	return For(store, PerKey(spec))
}

// For returns a limiter that applies rules, at least one, to inputs of type T. A nil store is the memory of this limiter.
func For[T any](store storage.Store, rules ...Rule[T]) (*Limiter[T], error) {
	if len(rules) == 0 {
		return nil, errors.New("sluice: For needs at least one rule; a limiter without rules would allow every call")
	}
	return Options[T]{}.New(store, rules...)
}

// By returns a rule with a name, a key and the spec of a policy.
func By[T any](name string, key func(T) string, spec string) Rule[T] {
	return Rule[T]{Name: name, Key: key, Spec: spec}
}

// PerKey returns the rule of New: the input is the key, and the name is the policy, such as "gcra 100/m". So after a change of
// the limit all units are available again. To keep the used units, use By.
func PerKey(spec string) Rule[string] {
	name := spec
	if policy, err := compose.ParsePolicy(spec); err == nil {
		name = policy.String()
	}
	return By(name, func(key string) string { return key }, spec)
}

// ParsePolicy is [compose.ParsePolicy], which lists all options.
func ParsePolicy(spec string) (Policy, error) { return compose.ParsePolicy(spec) }

// MustNew is New, but panics on an error.
func MustNew(store storage.Store, spec string) *Limiter[string] { return must(New(store, spec)) }

// MustFor is For, but panics on an error.
func MustFor[T any](store storage.Store, rules ...Rule[T]) *Limiter[T] {
	return must(For(store, rules...))
}

// MustPolicy is ParsePolicy, but panics on an error.
func MustPolicy(spec string) Policy { return must(ParsePolicy(spec)) }

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}
