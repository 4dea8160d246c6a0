package observe

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

// errorKind is a value of the label kind.
type errorKind struct {
	name   string
	causes []error
}

// errorKinds returns the kinds in the order in which errors are matched: an error that wraps
// several causes has the first kind that matches.
func errorKinds() []errorKind {
	return []errorKind{
		{"program", []error{storage.ErrProgram}},
		{"outcome_unknown", []error{storage.ErrOutcomeUnknown}},
		{"overloaded", []error{storage.ErrOverloaded}}, // also wraps ErrUnavailable
		{"contended", []error{storage.ErrContended}},
		{"unavailable", []error{storage.ErrUnavailable}}, // often wraps the error of a context
		{"cost", []error{algo.ErrCost}},
		{"state", []error{algo.ErrState, algo.ErrStateVersion}},
		{"skew", []error{compose.ErrSkew}},
		{"context", []error{context.Canceled, context.DeadlineExceeded}},
		{"other", nil},
	}
}

// matches reports whether err has a cause of this kind. The kind "other" matches every error.
func (k *errorKind) matches(err error) bool {
	for _, cause := range k.causes {
		if errors.Is(err, cause) {
			return true
		}
	}
	return k.causes == nil
}
