package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
)

func TestRowsAreImportedInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := sluice.MustNew(nil, "gcra 50/s burst=120")
		began := time.Now()
		var batches []int
		require.NoError(t, importRows(t.Context(), limiter, "ann", make([]string, 250), func(batch []string) error {
			batches = append(batches, len(batch))
			return nil
		}))
		require.Equal(t, []int{100, 20, 50, 50, 30}, batches)
		require.Equal(t, 3*time.Second, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, importRows(ctx, limiter, "ann", make([]string, 250), func([]string) error { return nil }), context.DeadlineExceeded)
		failed := errors.New("failed")
		time.Sleep(time.Second)
		require.ErrorIs(t, importRows(t.Context(), limiter, "ann", make([]string, 2), func([]string) error { return failed }), failed)
	})
}
