package sluice_test

// These tests promise when Wait and WaitN return, and with which error.

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

func TestWaitSleepsUntilTheCallIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 1/m")...)
		began := time.Now()
		for range 3 {
			require.True(t, must(t)(l.Wait(background, ann)).Allowed)
		}
		require.Equal(t, 2*time.Minute, time.Since(began))

		ctx, cancel := context.WithTimeout(background, 30*time.Second)
		defer cancel()
		d, err := l.Wait(ctx, ann)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, d.Allowed)
		require.Equal(t, 2*time.Minute, time.Since(began), "it fails at once")

		ctx, cancel = context.WithCancel(background)
		time.AfterFunc(time.Second, cancel)
		_, err = l.Wait(ctx, ann)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 2*time.Minute+time.Second, time.Since(began))
	})
}

func TestWaitNWaitsForAllCallsAndPeekNChargesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 4/m")...)
		require.True(t, must(t)(l.PeekN(background, call{}, 4)).Allowed)
		d := must(t)(l.PeekN(background, call{}, 5))
		require.False(t, d.Allowed)
		require.EqualValues(t, 4, d.Remaining)

		began := time.Now()
		for range 2 {
			require.True(t, must(t)(l.WaitN(background, call{}, 3)).Allowed)
		}
		require.Equal(t, 30*time.Second, time.Since(began), "two units must refill")
	})
}

func TestWaitAboveTheCapacityFailsAtOnce(t *testing.T) {
	l := newLimiter(t, sluice.Options[call]{}, nil, sluice.Rule[call]{Name: "user", Spec: "gcra 1/m", Cost: func(call) int64 { return 2 }})
	d, err := l.Wait(background, call{})
	require.EqualError(t, err, `sluice: the cost exceeds the capacity of rule "user": context deadline exceeded`)
	require.ErrorIs(t, err, sluice.ErrExceedsCapacity)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, algo.Never, d.RetryAfter)
}

// Wait could not release held units, and to ask too early would begin a penalty.
func TestWaitRefusesHeldUnitsAndPenalties(t *testing.T) {
	for spec, want := range map[string]string{
		"inflight 2 ttl=1m":         "Wait cannot release units that are held; use Do or Hold, and try again after a denial",
		"penalty(gcra 2/s; for=1h)": "Wait cannot be used with a penalty, because to ask too early begins one; use Allow",
	} {
		l := newLimiter(t, sluice.Options[call]{}, nil, rulesOf("gcra 1/s", spec)...)
		_, err := l.Wait(background, ann)
		require.EqualError(t, err, `sluice: rule "rule 1", key "ann": `+want)
		require.Equal(t, []int64{1, 2}, remaining(t, l, ann))
	}
}

func TestFailureOfTheStoreEndsAWait(t *testing.T) {
	l := newLimiter(t, sluice.Options[call]{Timeout: time.Millisecond}, &faultyStore{err: errOutage}, rulesOf("gcra 1/m")...)
	d, err := l.Wait(background, call{})
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.NotErrorIs(t, err, sluice.ErrExceedsCapacity)
	require.Zero(t, d.RetryAfter, "nothing was denied")
}
