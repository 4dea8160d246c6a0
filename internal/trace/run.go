package trace

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Run runs the events. It returns the same trace with the decisions of the policies right of
// every arrow.
func (t *Trace) Run() (*Trace, error) {
	ran := *t
	ran.lines = make([]line, len(t.lines))
	policies := make([]live, t.policies)
	for i, l := range t.lines {
		switch {
		case l.policy != nil:
			policies[l.column].policy = l.policy
		case l.event != nil:
			answered := *l.event
			answered.answers = make([][]string, len(policies))
			for c := range policies {
				r, err := policies[c].decide(&answered)
				if err != nil {
					return nil, fmt.Errorf("%s:%d: policy %s: %w%s", t.name, l.number, policies[c].policy, err, remedy(err))
				}
				answered.answers[c] = t.answer(&r)
			}
			l.event = &answered
		}
		ran.lines[i] = l
	}
	return &ran, nil
}

func remedy(err error) string {
	if errors.Is(err, algo.ErrState) {
		return "; a policy line after an event keeps the states, so it needs the same algorithm"
	}
	return ""
}

func (t *Trace) answer(r *algo.Result) []string {
	words := make([]string, len(t.shown))
	for i, c := range t.shown {
		words[i] = c.text(r)
	}
	return words
}

// live is a policy with the states of its keys.
type live struct {
	policy algo.Policy
	states map[string][]byte
}

func (p *live) decide(e *event) (algo.Result, error) {
	now, state := epoch().Add(e.at), p.states[e.key]
	move := algo.Policy.Step
	switch e.verb {
	case peek:
		return p.policy.Peek(state, now, e.cost)
	case refund:
		move = algo.Policy.Refund
	case charge:
		move = algo.Policy.Charge
	}
	return p.apply(move, e.key, state, now, e.cost)
}

func (p *live) apply(
	move func(algo.Policy, []byte, []byte, time.Time, int64) ([]byte, algo.Result, error),
	key string, state []byte, now time.Time, cost int64,
) (algo.Result, error) {
	next, r, err := move(p.policy, nil, state, now, cost)
	if err != nil {
		return r, err
	}
	if p.states == nil {
		p.states = make(map[string][]byte)
	}
	p.states[key] = next
	return r, nil
}
