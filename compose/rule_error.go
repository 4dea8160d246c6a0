package compose

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/algo"
)

// RuleError reports that a rule could not decide. Err is [algo.ErrState],
// [algo.ErrStateVersion] or [algo.ErrCost], or an error of Rule.PolicyFor or of your own
// policy. The store has not failed, so Options.OnFailure does not apply.
type RuleError struct {
	Rule string
	Key  string // the key, which may be a secret; empty if the rule failed before it found one
	Err  error
}

// Error returns the rule, the key cut to 64 characters, the error, and a remedy if the state
// belongs to another algorithm.
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

// Unwrap returns Err.
func (e *RuleError) Unwrap() error { return e.Err }
