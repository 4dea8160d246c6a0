package sluice_test

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
)

// errRefused is the error of a store whose server refuses connections.
var errRefused = storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}))

func TestOnFailureAppliesSoonIfConnectionsAreRefused(t *testing.T) {
	for _, p := range []sluice.FailurePolicy{sluice.FailClosed, sluice.FailOpen, sluice.FailLocal} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			l := newLimiter(t, sluice.Options[call]{OnFailure: p, CircuitOpenAfter: -1}, store, rulesOf("gcra 9/m")...)
			r := reserve(t, l, ann, 3)
			store.err = errRefused
			took := func(do func() (sluice.Decision, error)) time.Duration {
				began := time.Now()
				d, err := do()
				require.ErrorIs(t, errors.Join(err, d.Err), errRefused)
				require.Equal(t, p != sluice.FailClosed, d.Degraded)
				return time.Since(began)
			}
			for name, do := range map[string]func() (sluice.Decision, error){
				"Allow": func() (sluice.Decision, error) { return l.Allow(background, ann) },
				"Wait":  func() (sluice.Decision, error) { return l.Wait(background, ann) },
				"Peek":  func() (sluice.Decision, error) { return l.Peek(background, ann) },
				"Reserve": func() (sluice.Decision, error) {
					_, d, err := l.Reserve(background, ann, 1)
					return d, err
				},
			} {
				if took := took(do); p == sluice.FailClosed {
					require.Equal(t, sluice.DefaultTimeout, took, name)
				} else {
					require.Less(t, took, 110*time.Millisecond, name)
				}
			}
			for name, do := range map[string]func() (sluice.Decision, error){ // they would be lost
				"Charge": func() (sluice.Decision, error) { return l.Charge(background, ann, 1) },
				"Refund": func() (sluice.Decision, error) { return l.Refund(background, ann, 1) },
				"Settle": func() (sluice.Decision, error) { return r.Settle(background, 1) },
			} {
				require.Equal(t, sluice.DefaultTimeout, took(do), name)
			}
		})
	}
}
