package sluice

import (
	"errors"
	"fmt"
	"reflect"
)

// Join returns a limiter with the rules of several limiters, in their order. It charges a call under all of them or under none. It
// shares the records of the limiters, which can go on deciding by themselves.
//
// The limiters must have the same store, the same Options.Clock and the same Options.Group, and the names of all rules must differ. A
// limiter in a memory of its own can only be joined with itself. Join compares clocks and groups by their code, so it takes methods of
// different values, and closures of the same code, for one. Do not join such limiters. The other options are those of the first
// limiter. Join returns an error without limiters.
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
