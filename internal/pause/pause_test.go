package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/pause"
)

func TestFor(t *testing.T) {
	for name, test := range map[string]struct {
		pause, deadline, leaves time.Duration // 0 for none
		err                     error
		took                    time.Duration
	}{
		"to its end":            {pause: time.Hour, took: time.Hour},
		"none":                  {},
		"within the deadline":   {pause: time.Second, deadline: time.Minute, took: time.Second},
		"beyond the deadline":   {pause: time.Hour, deadline: time.Minute, err: context.DeadlineExceeded},
		"for ever":              {pause: algo.Never, err: context.DeadlineExceeded},
		"until the caller goes": {pause: time.Hour, leaves: time.Minute, err: context.Canceled, took: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				if test.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
				}
				if test.leaves > 0 {
					time.AfterFunc(test.leaves, cancel)
				}
				defer cancel()
				began := time.Now()
				require.ErrorIs(t, pause.For(ctx, test.pause), test.err)
				require.Equal(t, test.took, time.Since(began))
			})
		})
	}
}

func TestText(t *testing.T) {
	require.Equal(t, "1m30s", pause.Text(90*time.Second))
	require.Equal(t, "ever", pause.Text(algo.Never))
}
