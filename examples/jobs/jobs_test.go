package main

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
)

func TestTenJobsRunAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := sluice.MustFor(nil, jobRules()...)
		var running, most, ran atomic.Int64
		var all sync.WaitGroup
		for range 15 {
			all.Go(func() {
				assert.NoError(t, run(t.Context(), limiter, job{"ann", func(context.Context) error {
					if now := running.Add(1); now > most.Load() {
						most.Store(now)
					}
					time.Sleep(5 * time.Minute)
					running.Add(-1)
					ran.Add(1)
					return nil
				}}))
			})
		}
		all.Wait()
		require.EqualValues(t, 10, most.Load())
		require.EqualValues(t, 15, ran.Load())
	})
}

func TestJobThatWaitsStopsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := sluice.MustFor(nil, jobRules()...)
		for range 10 {
			_, _, err := limiter.Reserve(t.Context(), job{tenant: "ann"}, 1)
			require.NoError(t, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(t, run(ctx, limiter, job{"ann", nil}), context.DeadlineExceeded)
	})
}
