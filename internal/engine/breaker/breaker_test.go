// These tests promise when a circuit breaker opens, probes and closes. Time is that of a
// testing/synctest bubble.
package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine/breaker"
)

var errRefused = errors.New("connection refused")

// bubble runs a test in a bubble, with a breaker that opens after a second.
func bubble(t *testing.T, test func(t *testing.T, b *breaker.Breaker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, breaker.New(time.Second)) })
}

// fail records a round trip that took d and failed.
func fail(b *breaker.Breaker, d time.Duration) {
	began := time.Now()
	time.Sleep(d)
	b.Failed(began, errRefused)
}

// requireAdmits fails unless the breaker is closed and asks for no probe.
func requireAdmits(t *testing.T, b *breaker.Breaker) {
	t.Helper()
	probe, err := b.Admit()
	require.NoError(t, err)
	require.False(t, probe)
}

func TestItOpensAfterOneSecondOfFailures(t *testing.T) {
	bubble(t, func(t *testing.T, b *breaker.Breaker) {
		for range 9 {
			fail(b, 100*time.Millisecond)
			requireAdmits(t, b)
		}
		fail(b, 100*time.Millisecond)
		probe, err := b.Admit()
		require.ErrorIs(t, err, errRefused)
		require.ErrorContains(t, err, "failed for 1s")
		require.True(t, probe)
		b.CutShort(time.Now())
		time.Sleep(time.Second)
		b.Probed(errRefused)
		_, err = b.Admit()
		require.ErrorContains(t, err, "failed for 2s")
	})
}

func TestASuccessRestartsTheTimeToOpen(t *testing.T) {
	bubble(t, func(t *testing.T, b *breaker.Breaker) {
		fail(b, 900*time.Millisecond)
		b.Succeeded(true)
		fail(b, 900*time.Millisecond)
		requireAdmits(t, b)
	})
}

func TestARoundTripThatWritesNothingEndsNoFailures(t *testing.T) {
	bubble(t, func(t *testing.T, b *breaker.Breaker) {
		fail(b, 900*time.Millisecond)
		b.Succeeded(false)
		fail(b, 100*time.Millisecond)
		_, err := b.Admit()
		require.ErrorContains(t, err, "failed for 1s")
		b.Probed(nil)
		b.Succeeded(false)
		fail(b, 0)
		_, err = b.Admit()
		require.Error(t, err, "it opens again at once")
	})
}

// The connection of a round trip can hang while the server answers others.
func TestAnAnswerCountsMoreThanAnEarlierRoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T, b *breaker.Breaker) {
		hanging := time.Now()
		time.Sleep(900 * time.Millisecond)
		b.Succeeded(true)
		time.Sleep(200 * time.Millisecond)
		b.Failed(hanging, errRefused)
		requireAdmits(t, b)
		fail(b, 800*time.Millisecond)
		_, err := b.Admit()
		require.ErrorContains(t, err, "failed for 1s")
	})
}

func TestAProbeCountsMoreThanAnEarlierRoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T, b *breaker.Breaker) {
		hanging := time.Now()
		fail(b, time.Second)
		b.Admit()
		time.Sleep(10 * time.Millisecond)
		b.Probed(nil)
		b.Failed(hanging, errRefused)
		requireAdmits(t, b)
	})
}

func TestFailuresFarApartDoNotAddUp(t *testing.T) {
	bubble(t, func(t *testing.T, b *breaker.Breaker) {
		for range 5 {
			fail(b, 100*time.Millisecond)
			requireAdmits(t, b)
			time.Sleep(3 * time.Second)
		}
	})
}

func TestOneProbeAtATimeWithAPauseBetween(t *testing.T) {
	bubble(t, func(t *testing.T, b *breaker.Breaker) {
		fail(b, time.Second)
		probes := func() (n int) {
			for range 10 {
				probe, err := b.Admit()
				require.Error(t, err)
				if probe {
					n++
				}
			}
			return n
		}
		require.Equal(t, 1, probes())
		time.Sleep(time.Minute)
		require.Zero(t, probes(), "the first has not ended")
		b.Probed(errRefused)
		require.Zero(t, probes(), "the pause has not ended")
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 1, probes())
	})
}

// Nobody has tested the server for more than a second.
func TestAPauseLetsCallersTestTheServerThemselves(t *testing.T) {
	for _, works := range []bool{true, false} {
		bubble(t, func(t *testing.T, b *breaker.Breaker) {
			fail(b, time.Second)
			time.Sleep(time.Second)
			probe, err := b.Admit()
			require.Error(t, err, "the last failure is not long ago")
			require.True(t, probe)
			b.Probed(errRefused)
			time.Sleep(time.Second)
			_, err = b.Admit()
			require.Error(t, err, "the last probe is not long ago")
			b.Probed(errRefused)

			time.Sleep(time.Second + 1)
			for range 10 {
				requireAdmits(t, b)
			}
			if works {
				b.Succeeded(true)
				fail(b, 0)
				requireAdmits(t, b)
				return
			}
			fail(b, 0)
			_, err = b.Admit()
			require.ErrorContains(t, err, "failed for 4s")
		})
	}
}

func TestAProbeDecidesWhenAllRoundTripsAreCutShort(t *testing.T) {
	for _, outcome := range []string{"works", "answered meanwhile", "fails"} {
		bubble(t, func(t *testing.T, b *breaker.Breaker) {
			for range 10 {
				b.CutShort(time.Now())
				requireAdmits(t, b)
				time.Sleep(100 * time.Millisecond)
			}
			probe, err := b.Admit()
			require.NoError(t, err, "it is closed until the probe has ended")
			require.True(t, probe)
			switch outcome {
			case "works":
				b.Probed(nil)
				fail(b, 0)
				requireAdmits(t, b)
			case "answered meanwhile":
				b.Succeeded(false)
				b.Probed(errRefused)
				requireAdmits(t, b)
			default:
				b.Probed(errRefused)
				_, err = b.Admit()
				require.ErrorContains(t, err, "failed for 1s")
			}
		})
	}
}

func TestAnAnswerOrAPauseEndsASeriesOfRoundTripsCutShort(t *testing.T) {
	for _, answers := range []bool{true, false} {
		bubble(t, func(t *testing.T, b *breaker.Breaker) {
			b.CutShort(time.Now())
			if time.Sleep(900 * time.Millisecond); answers {
				b.Succeeded(true)
			} else {
				time.Sleep(time.Hour)
				requireAdmits(t, b)
			}
			b.CutShort(time.Now())
			time.Sleep(900 * time.Millisecond)
			requireAdmits(t, b)
			b.CutShort(time.Now())
			time.Sleep(100 * time.Millisecond)
			probe, _ := b.Admit()
			require.True(t, probe, "another series")
		})
	}
}

func TestANegativeTimeMeansThatItNeverOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New(-1)
		for range 5 {
			fail(b, time.Minute)
			b.CutShort(time.Now())
			requireAdmits(t, b)
		}
	})
}

func TestTimeoutDoesNotReplaceTheCause(t *testing.T) {
	for _, timeout := range []error{context.DeadlineExceeded, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}} {
		b := breaker.New(0) // opens at once
		b.Failed(time.Now(), timeout)
		_, err := b.Admit()
		require.ErrorIs(t, err, timeout)
		b.Failed(time.Now(), fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: errRefused}))
		b.Failed(time.Now(), fmt.Errorf("the last attempt: %w", timeout))
		_, err = b.Admit()
		require.ErrorIs(t, err, errRefused)
		b.Succeeded(true)
		b.Failed(time.Now(), timeout)
		_, err = b.Admit()
		require.ErrorIs(t, err, timeout)
	}
}
