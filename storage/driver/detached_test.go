package driver_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/driver"
)

func TestDetachedReturnsWhatItsFunctionReturns(t *testing.T) {
	n, err := driver.Detached(t.Context(), func(context.Context) (int, error) { return 7, context.Canceled })
	require.Equal(t, 7, n)
	require.Equal(t, context.Canceled, err)
	require.PanicsWithValue(t, "a bug", func() {
		_, _ = driver.Detached(t.Context(), func(context.Context) (int, error) { panic("a bug") })
	})
	_, err = driver.Detached(t.Context(), func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
	require.Error(t, err)
}

// The caller returns when its context ends. The round trip has at least a second, also after a cancellation.
func TestDetachedRoundTripOutlivesItsCaller(t *testing.T) {
	for name, c := range map[string]struct {
		deadline, cancelled, lasts time.Duration // 0: never
	}{
		"a short deadline":                      {20 * time.Millisecond, 0, time.Second},
		"a long deadline":                       {time.Minute, 0, time.Minute},
		"a cancellation":                        {0, 10 * time.Millisecond, 10*time.Millisecond + time.Second},
		"a cancellation before a long deadline": {time.Minute, 10 * time.Millisecond, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				ends, ended := c.deadline, context.DeadlineExceeded
				if c.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
				}
				if c.cancelled > 0 {
					ends, ended = c.cancelled, context.Canceled
					time.AfterFunc(ends, cancel)
				}
				defer cancel()
				began, lasted := time.Now(), make(chan time.Duration, 1)
				_, err := driver.Detached(ctx, func(ctx context.Context) (int, error) {
					<-ctx.Done()
					lasted <- time.Since(began)
					return 0, ctx.Err()
				})
				require.ErrorIs(t, err, ended)
				require.Equal(t, ends, time.Since(began))
				require.Equal(t, c.lasts, <-lasted)
			})
		})
	}
}

func TestDetachedCallsNothingIfItsContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		_, err := driver.Detached(ctx, func(context.Context) (int, error) {
			t.Error("called")
			return 1, nil
		})
		require.ErrorIs(t, err, context.Canceled)
	}
}
