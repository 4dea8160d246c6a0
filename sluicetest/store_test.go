package sluicetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/sluicetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/storagetest"
)

func TestStoreObeysTheLawsOfStores(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storagetest.Harness {
		var passed atomic.Int64
		now := func() time.Time { return time.Unix(1e9, passed.Load()) }
		return storagetest.Harness{
			Store:   &sluicetest.Store{Base: &memory.Store{Clock: now}},
			Other:   &sluicetest.Store{Base: &memory.Store{Clock: now}},
			Advance: func(d time.Duration) { passed.Add(int64(d)) },
			Now:     now,
		}
	})
}

// create returns a swap that creates the record k.
func create() storage.Swap {
	return storage.Swap{Key: "k", New: storage.Record{Version: storage.NewVersion(), State: []byte("state")}}
}

// stored returns the version of k.
func stored(t *testing.T, s storage.Store) storage.Version {
	t.Helper()
	records, _, err := s.Load(t.Context(), "k")
	require.NoError(t, err)
	require.Len(t, records, 1)
	return records[0].Version
}

func TestFailStoresNothing(t *testing.T) {
	errFull := errors.New("the disk is full")
	for _, test := range []struct{ err, want error }{{nil, storage.ErrUnavailable}, {storage.ErrContended, storage.ErrContended}, {errFull, errFull}} {
		var s sluicetest.Store
		s.Fail(test.err)
		_, _, err := s.Load(t.Context(), "k")
		require.ErrorIs(t, err, test.want)
		_, swapped, err := s.CompareAndSwap(t.Context(), create())
		require.ErrorIs(t, err, test.want)
		require.ErrorIs(t, err, storage.ErrNotApplied)
		require.False(t, swapped)

		_, swapped, err = s.CompareAndSwap(t.Context())
		require.NoError(t, err, "without swaps there is no round trip")
		require.True(t, swapped)
		_, _, err = s.Load(t.Context())
		require.NoError(t, err, "without keys there is no round trip")

		s.Recover()
		require.Zero(t, stored(t, &s))
	}
}

func TestLostReplyHidesAWrite(t *testing.T) {
	base := new(memory.Store)
	s := &sluicetest.Store{Base: base}
	s.LoseReplies()
	first := create()
	for range 2 { // the second one conflicts
		current, swapped, err := s.CompareAndSwap(t.Context(), first)
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.NotErrorIs(t, err, storage.ErrNotApplied)
		require.False(t, swapped)
		require.Empty(t, current)
		require.Equal(t, first.New.Version, stored(t, s))
	}
	require.Equal(t, first.New.Version, stored(t, base))

	invalid := create()
	invalid.TTL = -1
	_, _, err := s.CompareAndSwap(t.Context(), invalid)
	require.ErrorIs(t, err, storage.ErrSwap, "the error of the base is not lost")
}

// The first decision stays charged. So the second one charges again, or finds too little left.
func TestLimiterDecidesAgainAfterALostReply(t *testing.T) {
	for spec, want := range map[string]error{"gcra 1/h": nil, "gcra 1/h burst=2": storage.ErrOutcomeUnknown} {
		synctest.Test(t, func(t *testing.T) {
			var s sluicetest.Store
			s.LoseReplies()
			d, err := sluice.MustNew(&s, spec).Allow(t.Context(), "ann")
			require.ErrorIs(t, err, want, spec)
			require.False(t, d.Allowed, spec)
			require.Equal(t, 2, d.Attempts, spec)
		})
	}
}

func TestHangLastsUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sluicetest.Store
		s.Hang()
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { _, _, err := s.Load(ctx, "k"); return err },
			func(ctx context.Context) error { _, _, err := s.CompareAndSwap(ctx, create()); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			err := call(ctx)
			require.Equal(t, time.Minute, time.Since(began))
			require.ErrorIs(t, err, storage.ErrUnavailable)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, storage.ErrNotApplied, "a real client cannot know")

			require.ErrorIs(t, call(ctx), storage.ErrNotApplied, "the context had ended before the call")
		}
		s.Recover()
		require.Zero(t, stored(t, &s))
	})
}

func TestCallsThatHangGoOn(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*sluicetest.Store)
		want   error
	}{
		"after a recovery": {(*sluicetest.Store).Recover, nil},
		"and fail":         {func(s *sluicetest.Store) { s.Fail(storage.ErrContended) }, storage.ErrContended},
		"and lose replies": {(*sluicetest.Store).LoseReplies, storage.ErrUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			var s sluicetest.Store
			s.Hang()
			errs := make(chan error, 1)
			go func() {
				_, _, err := s.CompareAndSwap(t.Context(), create())
				errs <- err
			}()
			synctest.Wait()
			s.Hang()
			synctest.Wait()
			require.Empty(t, errs, "the call hangs again")
			test.change(&s)
			require.ErrorIs(t, <-errs, test.want, name)
		})
	}
}

func ExampleStore() {
	var store sluicetest.Store
	limiter, err := sluice.Options[string]{OnFailure: sluice.FailOpen}.New(&store, sluice.Rule[string]{
		Name: "calls", Key: func(user string) string { return user }, Spec: "gcra 1/h",
	})
	if err != nil {
		panic(err)
	}
	allow := func() {
		d, err := limiter.Allow(context.Background(), "ann")
		fmt.Println(d.Allowed, d.Degraded, err)
	}

	allow()
	store.Fail(errors.New("no such table"))
	allow()
	store.Recover()
	allow()
	// Output:
	// true false <nil>
	// true true <nil>
	// false false <nil>
}
