package compose_test

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

// errRefused is the error of a store whose server refuses connections.
var errRefused = storage.NotApplied(fmt.Errorf("%w: %w", storage.ErrUnavailable, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}))

func TestOnFailureAppliesSoonIfConnectionsAreRefused(t *testing.T) {
	for _, p := range []compose.FailurePolicy{compose.FailClosed, compose.FailOpen, compose.FailLocal} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			l := newLimiter(t, compose.Options[call]{OnFailure: p, CircuitOpenAfter: -1}, store, rulesOf("gcra 9/m")...)
			r := reserve(t, l, ann, 3)
			store.err = errRefused
			took := func(do func() (compose.Decision, error)) time.Duration {
				began := time.Now()
				d, err := do()
				require.ErrorIs(t, errors.Join(err, d.Err), errRefused)
				require.Equal(t, p != compose.FailClosed, d.Degraded)
				return time.Since(began)
			}
			for name, do := range map[string]func() (compose.Decision, error){
				"Allow": func() (compose.Decision, error) { return l.Allow(background, ann) },
				"Wait":  func() (compose.Decision, error) { return l.Wait(background, ann) },
				"Peek":  func() (compose.Decision, error) { return l.Peek(background, ann) },
				"Reserve": func() (compose.Decision, error) {
					_, d, err := l.Reserve(background, ann, 1)
					return d, err
				},
			} {
				if took := took(do); p == compose.FailClosed {
					require.Equal(t, compose.DefaultTimeout, took, name)
				} else {
					require.Less(t, took, 110*time.Millisecond, name)
				}
			}
			for name, do := range map[string]func() (compose.Decision, error){ // they would be lost
				"Charge": func() (compose.Decision, error) { return l.Charge(background, ann, 1) },
				"Refund": func() (compose.Decision, error) { return l.Refund(background, ann, 1) },
				"Settle": func() (compose.Decision, error) { return r.Settle(background, 1) },
			} {
				require.Equal(t, compose.DefaultTimeout, took(do), name)
			}
		})
	}
}
