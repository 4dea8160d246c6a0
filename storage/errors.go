package storage

import (
	"errors"
	"fmt"
)

// Errors of stores and of the engine. They mean that something could not be
// decided or stored, never a denial, and come wrapped: test with errors.Is.
//
// A store marks what its client said by wrapping both:
//
//	fmt.Errorf("sqlite: %w: %w", storage.ErrContended, err)
var (
	// ErrNotApplied holds for every error that proves that nothing was stored and nothing
	// will be: what was asked wrongly, a context that ended before anything was sent, a
	// connection that could not be made, an answer of the server that says so.
	// Every other error of a write leaves open whether it was applied.
	// [NotApplied] marks an error with it; [ErrContended], [ErrOverloaded],
	// [ErrKey], [ErrDuplicateKey] and [ErrSwap] imply it.
	ErrNotApplied = errors.New("storage: nothing was applied")

	// ErrUnavailable is returned by stores when the database cannot be reached or
	// cannot serve now (starting, read-only, failing over, overloaded), and by the engine
	// when that lasted longer than the caller's time, or than its own timeout, and at once while the
	// circuit breaker is open. Alone it does not prove that a write was not applied.
	ErrUnavailable = errors.New("storage: the store is unavailable")

	// ErrContended is returned by stores when the database gave up this attempt in favour of others
	// (a serialization failure, a deadlock resolved, a lock not had in time), and by the
	// engine when swaps kept losing until the caller's time was over. Nothing was
	// applied; an ordinary conflict is no error.
	ErrContended error = refusal("storage: too much contention")

	// ErrOverloaded is returned by the engine when more decisions wait for the store
	// than its options let. Nothing was applied; it implies ErrUnavailable.
	ErrOverloaded error = overload("storage: too many decisions wait for the store")

	// ErrOutcomeUnknown is returned by the engine alone: the reply to a write was lost, or the
	// caller's time was over before it came, and what is stored does not tell whether the
	// request was applied. Its units may have been charged without being reported. It does not
	// wrap ErrNotApplied.
	ErrOutcomeUnknown = errors.New("storage: the outcome of a write is unknown")

	// ErrProgram is returned by the engine if the database ran the step of a policy and its outcome
	// differs from that of the step in Go. One of the two has a fault: please report it.
	// The decision may have been stored.
	ErrProgram = errors.New("storage: the program on the server differs from the policy")

	// ErrTorn is returned by stores that the database has forced to apply a swap or a request of
	// several keys in part. The engine then returns ErrOutcomeUnknown at once.
	ErrTorn = errors.New("storage: a write was applied in part")

	// ErrKey is returned by stores for a key of more than MaxKey bytes, and for keys that they
	// cannot keep together.
	ErrKey error = refusal("storage: key is too long")

	// ErrDuplicateKey is returned by stores for a key that occurs twice in one
	// CompareAndSwap, update, or list of keys of a batch.
	ErrDuplicateKey error = refusal("storage: key occurs twice")

	// ErrSwap is returned by stores for a swap or change that means nothing: a state without a
	// version, a negative TTL, an unknown verb or priority.
	ErrSwap error = refusal("storage: not a swap")
)

// refusal is an error that implies ErrNotApplied.
type refusal string

func (e refusal) Error() string        { return string(e) }
func (e refusal) Is(target error) bool { return target == ErrNotApplied }

// overload is a refusal that trying again later may help.
type overload string

func (e overload) Error() string { return string(e) }
func (e overload) Is(target error) bool {
	return target == ErrNotApplied || target == ErrUnavailable
}

// NotApplied marks err, which must not be nil, as proof that nothing was applied.
func NotApplied(err error) error {
	if errors.Is(err, ErrNotApplied) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotApplied, err)
}
