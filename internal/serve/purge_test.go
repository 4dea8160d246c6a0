package serve

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// expired is a store of which n records have expired.
type expired struct {
	n       int
	batches []int
	err     error
}

func (e *expired) Purge(ctx context.Context, most int) (int, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return 0, errors.New("without a deadline")
	}
	removed := min(e.n, most)
	e.n -= removed
	e.batches = append(e.batches, removed)
	return removed, e.err
}

func TestPurge(t *testing.T) {
	e := &expired{n: 2*purgeBatch + 5}
	removed, err := purgeAll(context.Background(), e)
	require.NoError(t, err)
	require.Equal(t, 2*purgeBatch+5, removed)
	require.Equal(t, []int{purgeBatch, purgeBatch, 5}, e.batches)
}

func TestPurgingEnds(t *testing.T) {
	w := started(t, oneByIP)
	ctx, cancel := context.WithCancel(context.Background())
	ticks := make(chan time.Time)
	e := &expired{n: 7, err: errors.New("disk full")}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.purgeAt(ctx, ticks, e)
	}()
	ticks <- time.Time{}
	ticks <- time.Time{} // the first is over
	cancel()
	<-done
	require.Zero(t, e.n)
	require.Contains(t, w.logged.String(), "disk full")
	require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_purges_total{outcome="failed"}`)
	require.NotContains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_purges_total{outcome="failed"} 0`)
}
