package observe

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

// kind is one value of the label of that name.
type kind struct {
	name   string
	causes []error
}

// kinds are in the order in which an error is tried against them: one that wraps
// several is of the kind that tells most.
func kinds() []kind {
	return []kind{
		{"program", []error{storage.ErrProgram}},
		{"outcome_unknown", []error{storage.ErrOutcomeUnknown}},
		{"overloaded", []error{storage.ErrOverloaded}}, // implies ErrUnavailable
		{"contended", []error{storage.ErrContended}},
		{"unavailable", []error{storage.ErrUnavailable}}, // often wraps the end of a context
		{"cost", []error{algo.ErrCost}},
		{"state", []error{algo.ErrState, algo.ErrStateVersion}},
		{"skew", []error{compose.ErrSkew}},
		{"context", []error{context.Canceled, context.DeadlineExceeded}},
		{"other", nil},
	}
}

// is reports whether err is of this kind, if it is of none before.
func (k *kind) is(err error) bool {
	for _, cause := range k.causes {
		if errors.Is(err, cause) {
			return true
		}
	}
	return k.causes == nil
}
