package sluice

import (
	"errors"
	"fmt"
	"reflect"
)

// Join returns a limiter with the rules of several limiters, in their order. It shares their records, and they can go on
// deciding.
//
// The limiters must have the same store, Options.Clock and Options.Group, and different names of rules. The other options are
// those of the first one. Join compares functions by their code, so it takes two closures of the same code, or methods of two
// values, for one. Do not join limiters that differ only in those.
func Join[T any](limiters ...*Limiter[T]) (*Limiter[T], error) {
	if len(limiters) == 0 {
		return nil, errors.New("sluice: Join needs at least one limiter")
	}
	first := limiters[0]
	var rules []Rule[T]
	for i, l := range limiters {
		switch {
		case l == nil:
			return nil, fmt.Errorf("sluice: Join: limiter %d is nil", i)
		case l.store == nil:
			return nil, fmt.Errorf("sluice: Join: limiter %d is a zero Limiter; make it with New, For or Options.New", i)
		case i > 0 && (!reflect.ValueOf(l.store).Comparable() || l.store != first.store):
			return nil, fmt.Errorf("sluice: Join: limiters 0 and %d have different stores; make them with the same one", i)
		case !sameFunc(l.options.Clock, first.options.Clock):
			return nil, fmt.Errorf("sluice: Join: limiters 0 and %d have different Options.Clock", i)
		case !sameFunc(l.options.Group, first.options.Group):
			return nil, fmt.Errorf("sluice: Join: limiters 0 and %d have different Options.Group", i)
		}
		rules = append(rules, l.rules...)
	}
	return first.options.New(first.store, rules...)
}

// sameFunc reports whether two functions have the same code, or are both nil.
func sameFunc(a, b any) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
