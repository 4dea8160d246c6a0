// These tests promise that Sleep ends at the first of three times: the end of the wait, the
// cancellation of the context, and the start if the deadline is too early.
package retrywait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/retrywait"
)

func TestSleep(t *testing.T) {
	for name, test := range map[string]struct {
		wait, deadline, cancel time.Duration // 0 for none
		err                    error
		took                   time.Duration
	}{
		"a full wait":           {wait: time.Hour, took: time.Hour},
		"no wait":               {},
		"before the deadline":   {wait: time.Second, deadline: time.Minute, took: time.Second},
		"beyond the deadline":   {wait: time.Hour, deadline: time.Minute, err: context.DeadlineExceeded},
		"for ever":              {wait: algo.Never, err: context.DeadlineExceeded},
		"until it is cancelled": {wait: time.Hour, cancel: time.Minute, err: context.Canceled, took: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				if test.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
				}
				if test.cancel > 0 {
					time.AfterFunc(test.cancel, cancel)
				}
				defer cancel()
				began := time.Now()
				require.ErrorIs(t, retrywait.Sleep(ctx, test.wait), test.err)
				require.Equal(t, test.took, time.Since(began))
			})
		})
	}
}
