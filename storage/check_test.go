package storage_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

func swap(key string) storage.Swap {
	return storage.Swap{Key: key, New: storage.Record{Version: 1}}
}

func swaps(n int) []storage.Swap {
	all := make([]storage.Swap, n)
	for i := range all {
		all[i] = swap(strconv.Itoa(i))
	}
	return all
}

func ExampleCheck() {
	alice := storage.Swap{Key: "alice", New: storage.Record{Version: storage.NewVersion()}}
	err := storage.Check([]storage.Swap{alice, alice})
	fmt.Println(err)
	fmt.Println(errors.Is(err, storage.ErrDuplicateKey), errors.Is(err, storage.ErrNotApplied))
	// Output:
	// storage: key occurs twice: "alice"
	// true true
}

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
	fmt.Println(storage.NewVersion() == 0, storage.NewVersion() == storage.NewVersion())
	// Output:
	// false false
}

func TestCheck(t *testing.T) {
	long := strings.Repeat("x", storage.MaxKey+1)
	for _, c := range []struct {
		name  string
		swaps []storage.Swap
		want  error
	}{
		{"none", nil, nil},
		{"create, replace, delete, require absence", []storage.Swap{
			swap("a"),
			{Key: "b", Old: 1, New: storage.Record{Version: 2, State: []byte{1}}, TTL: 1},
			{Key: "c", Old: 1},
			{Key: ""},
			{Key: long[1:]},
		}, nil},
		{"long key", []storage.Swap{swap(long)}, storage.ErrKey},
		{"state without version", []storage.Swap{{Key: "a", Old: 1, New: storage.Record{State: []byte{1}}}}, storage.ErrSwap},
		{"negative TTL", []storage.Swap{{Key: "a", New: storage.Record{Version: 1}, TTL: -1}}, storage.ErrSwap},
		{"neighbours alike", []storage.Swap{swap("a"), swap("a")}, storage.ErrDuplicateKey},
		{"ends alike", []storage.Swap{swap("a"), swap("b"), swap("a")}, storage.ErrDuplicateKey},
		{"many", swaps(1000), nil},
		{"many with one alike", append(swaps(1000), swap("999")), storage.ErrDuplicateKey},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := storage.Check(c.swaps)
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.want != nil, errors.Is(err, storage.ErrNotApplied))
		})
	}
}

func TestCheckKeys(t *testing.T) {
	require.NoError(t, storage.CheckKeys([]string{"a", "b", ""}))
	require.ErrorIs(t, storage.CheckKeys([]string{"a", "b", "a"}), storage.ErrDuplicateKey)
	require.ErrorIs(t, storage.CheckKeys([]string{strings.Repeat("x", 513)}), storage.ErrKey)
	require.NoError(t, storage.CheckLoad([]string{"a", "b", "a"}))
	require.ErrorIs(t, storage.CheckLoad([]string{strings.Repeat("x", 513)}), storage.ErrKey)
}

func TestWhichErrorsProveThatNothingWasApplied(t *testing.T) {
	for err, proof := range map[error]bool{
		storage.ErrNotApplied:     true,
		storage.ErrContended:      true,
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
}

func TestCheckingAFewKeysDoesNotAllocate(t *testing.T) {
	few := swaps(16)
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = storage.Check(few) }))
}
