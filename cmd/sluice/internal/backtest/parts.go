package backtest

import (
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// Parts returns the parts of a stack, or else the policy itself. For a penalty, it returns the parts of its inner policy.
func Parts(p algo.Policy) []algo.Policy {
	if stack := compose.StackOf(p); stack != nil {
		return stack.Parts()
	}
	if penalty, ok := p.(*compose.Penalty); ok {
		p = penalty.Inner()
	}
	return []algo.Policy{p}
}
