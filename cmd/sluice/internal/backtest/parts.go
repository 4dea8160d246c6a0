package backtest

import "github.com/sluice-go/sluice/algo"

// Parts returns the parts of a stack, or else the policy itself.
func Parts(p algo.Policy) []algo.Policy {
	if stack, ok := p.(interface{ Parts() []algo.Policy }); ok {
		return stack.Parts()
	}
	return []algo.Policy{p}
}
