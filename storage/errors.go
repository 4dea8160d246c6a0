package storage

import (
	"errors"
	"fmt"
	"slices"
)

// The errors of stores and of the limiter. None of them is a denial: they mean that there is no
// decision, or that it is not certain whether it was stored. They are returned wrapped, so test for
// them with errors.Is.
//
// A store wraps one of them together with the error of its database client:
//
//	fmt.Errorf("sqlite: %w: %w", storage.ErrContended, err)
var (
	// ErrNotApplied is wrapped by every error that proves that the call stored nothing and never
	// will, such as an invalid argument, a context that ended before anything was sent, a
	// connection that could not be opened, or a refusal by the server. After any other error of a
	// write, the write may have been applied or not. [ErrContended], [ErrOverloaded], [ErrKey],
	// [ErrDuplicateKey] and [ErrSwap] wrap ErrNotApplied.
	ErrNotApplied = errors.New("storage: nothing was applied")

	// ErrUnavailable is returned by stores if the database cannot be reached or cannot serve now,
	// because it is starting, read-only, failing over or overloaded. Without ErrNotApplied, it does
	// not prove that a write was not applied. The limiter returns ErrUnavailable when the database
	// stays away longer than the timeout of the limiter or the context of the caller, and at once
	// while its circuit breaker is open.
	ErrUnavailable = errors.New("storage: the store is unavailable")

	// ErrContended is returned by stores if the database aborted this attempt in favour of others:
	// after a serialization failure, a deadlock or a lock timeout. The limiter returns it if its
	// swaps conflicted until its timeout or the caller's context ended. Nothing was applied. A
	// single conflict is not an error.
	ErrContended error = &sentinel{"storage: too much contention", notApplied}

	// ErrOverloaded is returned by the limiter if more requests wait for the store than
	// sluice.Options.MaxQueue allows. Nothing was applied. ErrOverloaded wraps ErrUnavailable.
	ErrOverloaded error = &sentinel{"storage: too many decisions wait for the store", []error{ErrNotApplied, ErrUnavailable}}

	// ErrOutcomeUnknown is returned only by the limiter. The reply to a write was lost, or the
	// caller's context ended before the reply came, and the stored records do not show whether the
	// request was applied. Or a write was applied in part; see ErrPartialWrite. The request may have
	// been charged. ErrOutcomeUnknown does not wrap ErrNotApplied.
	ErrOutcomeUnknown = errors.New("storage: the outcome of a write is unknown")

	// ErrProgram is returned by the limiter if the database ran a policy as a program in Lua or SQL
	// (see algo.Program), and the result differs from that of the policy in Go. The program, the
	// policy or the database has a fault: please report it. The decision may have been stored.
	ErrProgram = errors.New("storage: the program on the server differs from the policy")

	// ErrPartialWrite is returned by a store if the database applied only a part of a
	// CompareAndSwap or of a request with several keys. The limiter does not retry it. It returns
	// an error that wraps both ErrOutcomeUnknown and ErrPartialWrite.
	ErrPartialWrite = errors.New("storage: a write was applied in part")

	// ErrKey is returned by stores for a key of more than MaxKey bytes, and for keys that the
	// database cannot change together.
	ErrKey error = &sentinel{"storage: invalid key", notApplied}

	// ErrDuplicateKey is returned by stores if a key occurs twice in one CompareAndSwap, or in one
	// update or batch of package driver.
	ErrDuplicateKey error = &sentinel{"storage: key occurs twice", notApplied}

	// ErrSwap is returned by stores for an invalid swap, such as a state without a version, a
	// negative TTL or an unknown priority. The same holds for an invalid driver.Change.
	ErrSwap error = &sentinel{"storage: invalid swap", notApplied}
)

// KeyError is the error of one key of a call. The text of a store's errors never contains a key, because keys
// may be secret and errors are logged. To find the key, use errors.As.
type KeyError struct {
	Key string // as it was passed to the store
	Err error
}

// Error returns the text of Err, without the key.
func (e *KeyError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *KeyError) Unwrap() error { return e.Err }

var notApplied = []error{ErrNotApplied}

// sentinel is an error that implies others.
type sentinel struct {
	text    string
	implied []error
}

func (e *sentinel) Error() string        { return e.text }
func (e *sentinel) Is(target error) bool { return slices.Contains(e.implied, target) }

// NotApplied wraps err together with [ErrNotApplied], unless err wraps it already. err must not
// be nil.
func NotApplied(err error) error {
	if errors.Is(err, ErrNotApplied) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotApplied, err)
}
