package compose

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/algo"
)

// RuleError is why a rule could not decide: an [algo.ErrState], [algo.ErrStateVersion] or
// [algo.ErrCost], an error of Rule.PolicyFor, or an error of a policy of your own. It is
// not a failure of the store, so Options.OnFailure does not apply to it.
type RuleError struct {
	Rule string
	Key  string // as Rule.Key found it; it may be a secret. Empty if the rule failed before that
	Err  error
}

func (e *RuleError) Error() string {
	remedy := ""
	if errors.Is(e.Err, algo.ErrState) {
		remedy = "; if the rule has changed its algorithm, or the parts of its all(), give it a new name, or Reset the key"
	}
	key := ""
	if e.Key != "" {
		key = fmt.Sprintf(", key %.64q", e.Key)
	}
	return fmt.Sprintf("compose: rule %q%s: %v%s", e.Rule, key, e.Err, remedy)
}

func (e *RuleError) Unwrap() error { return e.Err }
