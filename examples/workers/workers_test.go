package main

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWorkersRunJobsInOrderAndAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := newLimiter(nil)
		require.NoError(t, err)
		began, started := time.Now(), make(chan string, 10)
		jobs := make(chan job)
		go func() {
			defer close(jobs)
			for i := range 10 {
				jobs <- job{"ann", func(context.Context) { started <- fmt.Sprint(i, " ", time.Since(began)) }}
				synctest.Wait()
			}
		}()
		require.NoError(t, process(t.Context(), limiter, jobs, 3))
		for i := range 10 {
			require.Equal(t, fmt.Sprint(i, " ", time.Duration(i)*200*time.Millisecond), <-started)
		}
	})
}

func TestWorkersStopWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := newLimiter(nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		jobs := make(chan job, 10)
		ran := make(chan bool, 10)
		for range 10 {
			jobs <- job{"ann", func(context.Context) { ran <- true }}
		}
		require.ErrorIs(t, process(ctx, limiter, jobs, 3), context.DeadlineExceeded)
		require.Len(t, ran, 3)
	})
}
