// Package clockstep moves states back to now after the clock of a store has stepped back.
package clockstep

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// Most is how far a state may be ahead of the only clock that decides. A state that is further ahead was written before
// the clock stepped back. Less can be the difference between the servers of a cluster.
const Most = 10 * time.Second

// Move moves a state to now if it is ahead by more than Most. The units that were in use at its own time are in use now.
// A part of a unit counts as a whole unit. The result is empty if no units are in use.
func Move(policy algo.Policy, state []byte, now time.Time) ([]byte, error) {
	r, err := policy.Peek(state, now, 1)
	if err != nil || r.Skew <= Most {
		return state, err
	}
	switch policy := policy.(type) {
	case *compose.Stack:
		return moveStack(policy, state, now)
	case *compose.Penalty:
		end, own, err := policy.Split(state)
		if err != nil {
			return nil, err
		}
		if own, err = Move(policy.Inner(), own, now); err != nil {
			return nil, err
		}
		return policy.Join(end, own, now), nil
	}
	own := time.UnixMicro(algo.Instant(now)).Add(r.Skew)
	if r, err = policy.Peek(state, own, 1); err != nil || r.Remaining >= r.Limit {
		return nil, err
	}
	next, _, err := policy.Charge(nil, nil, now, r.Limit-r.Remaining)
	return next, err
}

// moveStack moves each part by itself, because each has its own time and its own units in use.
func moveStack(stack *compose.Stack, state []byte, now time.Time) ([]byte, error) {
	var states [][]byte
	for part, own := range stack.Split(state) {
		next, err := Move(part, own, now)
		if err != nil {
			return nil, err
		}
		states = append(states, next)
	}
	return stack.Join(states...), nil
}
