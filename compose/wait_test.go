package compose_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

func TestWaitTellsWhatDeniesForHowLong(t *testing.T) {
	l, err := compose.New(nil, compose.Rule[call]{Name: "user", Policy: limitOf(t, "gcra 1/m"), Cost: func(call) int64 { return 2 }})
	require.NoError(t, err)
	_, err = l.Wait(background, call{})
	require.EqualError(t, err, `compose: the cost exceeds the capacity of rule "user": context deadline exceeded`)
	require.ErrorIs(t, err, compose.ErrExceedsCapacity)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAStoreThatFailsEndsAWait(t *testing.T) {
	l, err := compose.Options[call]{Timeout: time.Millisecond}.New(unreachable{}, compose.Rule[call]{Name: "user", Policy: limitOf(t, "gcra 1/m")})
	require.NoError(t, err)
	d, err := l.Wait(background, call{})
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.NotErrorIs(t, err, compose.ErrExceedsCapacity)
	require.Zero(t, d.RetryAfter, "nothing was denied")
}

func TestSeveralCallsAreLookedAtAndWaitedForAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := compose.New(nil, compose.Rule[call]{Name: "user", Policy: limitOf(t, "gcra 4/m")})
		require.NoError(t, err)
		d, err := l.PeekN(background, call{}, 4)
		require.True(t, must(t, d, err).Allowed)
		d, err = l.PeekN(background, call{}, 5)
		require.False(t, must(t, d, err).Allowed)
		require.EqualValues(t, 4, d.Remaining, "a look pays nothing")

		began := time.Now()
		for range 2 {
			d, err := l.WaitN(background, call{}, 3)
			require.True(t, must(t, d, err).Allowed)
		}
		require.Equal(t, 30*time.Second, time.Since(began), "two of them must come back")
	})
}
