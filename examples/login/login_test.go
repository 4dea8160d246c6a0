// The tests promise that only failed attempts are charged, also if attempts are concurrent, and that a
// right password succeeds even if the store fails afterwards.
package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/sluicetest"
)

func Example() {
	main()
	// Output:
	// 12:00 ann from 192.0.2.1 fails, 4 attempts left
	// 12:00 ann from 192.0.2.1 fails, 3 attempts left
	// 12:00 ann from 192.0.2.1 is logged in
	// 12:00 ann from 203.0.113.9 fails, 4 attempts left
	// 12:00 ann from 203.0.113.9 fails, 3 attempts left
	// 12:00 ann from 203.0.113.9 fails, 2 attempts left
	// 12:00 ann from 203.0.113.9 fails, 1 attempts left
	// 12:00 ann from 203.0.113.9 fails, 0 attempts left
	// 12:00 ann from 203.0.113.9 is denied by login-account for 15m0s
	// 12:01 ann from 192.0.2.1 is denied by login-account for 14m0s
	// 12:01 ann is unlocked
	// 12:01 ann from 192.0.2.1 is logged in
	// 12:01 ann from 203.0.113.9 fails, 4 attempts left
	// 12:21 ann from 203.0.113.9 fails, 4 attempts left
}

func right() bool { return true }
func wrong() bool { return false }

// try makes an attempt and returns whether it succeeded.
func try(t *testing.T, limiter *sluice.Limiter[login], l login, check func() bool) bool {
	t.Helper()
	ok, _, err := signIn(t.Context(), limiter, l, check)
	require.NoError(t, err)
	return ok
}

func requireRemaining(t *testing.T, limiter *sluice.Limiter[login], l login, account, address int64) {
	t.Helper()
	d, err := limiter.Peek(t.Context(), l)
	require.NoError(t, err)
	require.Equal(t, [2]int64{account, address}, [2]int64{d.Results[0].Remaining, d.Results[1].Remaining})
}

// If a success also reset the address, an attacker could log in to an account of their own
// between two guesses.
func TestSuccessAndUnlockResetTheAccountOnly(t *testing.T) {
	limiter := sluice.MustFor(nil, loginRules()...)
	ann := login{"ann", "203.0.113.6"}
	for range 4 {
		require.False(t, try(t, limiter, ann, wrong))
	}
	require.True(t, try(t, limiter, ann, right))
	requireRemaining(t, limiter, ann, 5, 16)
	for range 9 {
		try(t, limiter, ann, wrong)
	}
	require.NoError(t, unlock(t.Context(), limiter, "ANN"))
	requireRemaining(t, limiter, ann, 5, 11) // 5 more failures, and 4 attempts that were denied and paid nothing
}

func TestConcurrentGuessesAreLimited(t *testing.T) {
	limiter := sluice.MustFor(nil, loginRules()...)
	var checked atomic.Int64
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			_, _, err := signIn(t.Context(), limiter, login{"ann", "203.0.113.6"}, func() bool {
				checked.Add(1)
				return false
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 5, checked.Load())
}

// A right password succeeds even if the context ends, or the store fails, before Settle.
func TestSuccessDoesNotDependOnSettle(t *testing.T) {
	store := new(sluicetest.Store)
	limiter := sluice.MustFor(store, loginRules()...)
	ann := login{"ann", "203.0.113.6"}
	for range 20 {
		ctx, leave := context.WithCancel(t.Context())
		ok, _, err := signIn(ctx, limiter, ann, func() bool { leave(); return true })
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.True(t, try(t, limiter, ann, func() bool {
		store.Fail(errors.New("no connection"))
		return true
	}))
}
