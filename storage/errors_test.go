// These tests promise that errors.Is distinguishes the errors of package storage, and shows which
// of them prove that nothing was applied. Package storagetest tests the contract of stores.
package storage_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

func ExampleNotApplied() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := storage.NotApplied(ctx.Err())
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.Canceled), errors.Is(err, storage.ErrNotApplied))
	// Output:
	// storage: nothing was applied: context canceled
	// true true
}

func ExampleNewVersion() {
	a, b := storage.NewVersion(), storage.NewVersion()
	fmt.Println(a == 0, a == b)
	// Output:
	// false false
}

func TestErrorsThatProveThatNothingWasApplied(t *testing.T) {
	for err, proof := range map[error]bool{
		storage.ErrNotApplied:     true,
		storage.ErrContended:      true,
		storage.ErrOverloaded:     true,
		storage.ErrKey:            true,
		storage.ErrDuplicateKey:   true,
		storage.ErrSwap:           true,
		storage.ErrUnavailable:    false,
		storage.ErrOutcomeUnknown: false,
		context.DeadlineExceeded:  false,
	} {
		wrapped := fmt.Errorf("sqlite: %w: %w", err, errors.New("database is locked"))
		require.Equal(t, proof, errors.Is(wrapped, storage.ErrNotApplied), "%v", err)
		require.ErrorIs(t, storage.NotApplied(wrapped), storage.ErrNotApplied)
		require.ErrorIs(t, storage.NotApplied(wrapped), err)
	}
	require.NotErrorIs(t, storage.ErrKey, storage.ErrDuplicateKey)
	require.ErrorIs(t, storage.ErrOverloaded, storage.ErrUnavailable)
}
