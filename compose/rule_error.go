package compose

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/algo"
)

// RuleError is why the policy of a rule could not decide: an [algo.ErrState],
// [algo.ErrStateVersion] or [algo.ErrCost], or an error of a policy of one's own. It is no
// failure of the store, and so none that a [FailurePolicy] is about.
type RuleError struct {
	Rule string
	Key  string // as Rule.Key found it; it may be a secret
	Err  error
}

func (e *RuleError) Error() string {
	remedy := ""
	if errors.Is(e.Err, algo.ErrState) {
		remedy = "; if the rule has changed its algorithm, or the parts of its all(), give it a new name, or Reset the key"
	}
	return fmt.Sprintf("compose: rule %q, key %.64q: %v%s", e.Rule, e.Key, e.Err, remedy)
}

func (e *RuleError) Unwrap() error { return e.Err }
