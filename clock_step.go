package sluice

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// stepBack is how far a state may be ahead of the only clock that decides. A state that is further ahead was written before
// the clock stepped back. Less can be the difference between the servers of a cluster.
const stepBack = 10 * time.Second

// moved moves a state to now if it is ahead by more than stepBack. The units that were in use at its own time are in use now.
// A part of a unit counts as a whole unit. The result is empty if no units are in use.
func moved(policy algo.Policy, state []byte, now time.Time) ([]byte, error) {
	if stack, ok := policy.(*compose.Stack); ok {
		return movedStack(stack, state, now)
	}
	if penalty, ok := policy.(*compose.Penalty); ok && penalty.Inner() != nil {
		end, own, err := penalty.Split(state)
		if err != nil {
			return nil, err
		}
		if own, err = moved(penalty.Inner(), own, now); err != nil {
			return nil, err
		}
		return penalty.Join(end, own, now), nil
	}
	r, err := policy.Peek(state, now, 1)
	if err != nil || r.Skew <= stepBack {
		return state, err
	}
	own := time.UnixMicro(algo.Instant(now)).Add(r.Skew)
	if r, err = policy.Peek(state, own, 1); err != nil || r.Remaining >= r.Limit {
		return nil, err
	}
	next, _, err := policy.Charge(nil, nil, now, r.Limit-r.Remaining)
	return next, err
}

// movedStack moves each part by itself, because each has its own time and its own units in use.
func movedStack(stack *compose.Stack, state []byte, now time.Time) ([]byte, error) {
	var states [][]byte
	for part, own := range stack.Split(state) {
		next, err := moved(part, own, now)
		if err != nil {
			return nil, err
		}
		states = append(states, next)
	}
	return stack.Join(states...), nil
}
