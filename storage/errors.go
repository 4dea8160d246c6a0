package storage

import (
	"errors"
	"fmt"
	"slices"
)

// The errors of stores and limiters. None is a denial. sluice.Limiter says when a limiter returns them. Only limiters return
// ErrOverloaded, ErrOutcomeUnknown and ErrProgram. A store also wraps the error of its database client:
//
//	fmt.Errorf("sqlite: %w: %w", storage.ErrContended, err)
var (
	// ErrNotApplied means that the call stored nothing and never will. After other errors, a write may have been applied.
	// [ErrContended], [ErrOverloaded], [ErrKey], [ErrDuplicateKey] and [ErrSwap] wrap it.
	ErrNotApplied = errors.New("storage: nothing was applied")

	// ErrUnavailable means that the database cannot be reached or cannot serve: it is starting, read-only, failing over or
	// overloaded.
	ErrUnavailable = errors.New("storage: the store is unavailable")

	// ErrContended means that the database aborted the attempt in favour of others: a serialization failure, a deadlock or a lock
	// timeout.
	ErrContended error = &sentinel{"storage: too much contention", notApplied}

	// ErrOverloaded means that more than sluice.Options.MaxQueue requests wait for the store. It wraps ErrUnavailable.
	ErrOverloaded error = &sentinel{"storage: too many decisions wait for the store", []error{ErrNotApplied, ErrUnavailable}}

	// ErrOutcomeUnknown means that a request may have been charged: the reply was lost or late, or only a part was applied.
	ErrOutcomeUnknown = errors.New("storage: the outcome of a write is unknown")

	// ErrProgram means that the program of a policy (see algo.Program) has another result than the policy in Go. The decision may
	// have been stored. Please report it.
	ErrProgram = errors.New("storage: the program on the server differs from the policy")

	// ErrPartialWrite means that the database applied only a part of a CompareAndSwap or of a request. A limiter returns it with
	// ErrOutcomeUnknown.
	ErrPartialWrite = errors.New("storage: a write was applied in part")

	// ErrKey means that a key is longer than MaxKey, or that the database cannot change the keys together.
	ErrKey error = &sentinel{"storage: invalid key", notApplied}

	// ErrDuplicateKey means that a key occurs twice in a CompareAndSwap or a batch.
	ErrDuplicateKey error = &sentinel{"storage: key occurs twice", notApplied}

	// ErrSwap means that a swap has a state without a version, a negative TTL or an unknown priority.
	ErrSwap error = &sentinel{"storage: invalid swap", notApplied}
)

// KeyError is the error of one key. Its text leaves out the key, which may be secret.
type KeyError struct {
	Key string
	Err error
}

func (e *KeyError) Error() string { return e.Err.Error() }

func (e *KeyError) Unwrap() error { return e.Err }

var notApplied = []error{ErrNotApplied}

// sentinel is an error that implies others.
type sentinel struct {
	text    string
	implied []error
}

func (e *sentinel) Error() string        { return e.text }
func (e *sentinel) Is(target error) bool { return slices.Contains(e.implied, target) }

// NotApplied wraps err, which must not be nil, with ErrNotApplied, unless err wraps it already.
func NotApplied(err error) error {
	if errors.Is(err, ErrNotApplied) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotApplied, err)
}
