// The tests promise nothing about sluice. They show six ways to test a limit.
package policytest

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/sluicetest"
	"github.com/sluice-go/sluice/storage"
)

// The test steps the policy: time is an argument, and the state is a value.
func TestPolicy(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var state []byte
	for _, step := range []struct {
		after      time.Duration // since noon
		allowed    bool
		retryAfter time.Duration
	}{
		{0, true, 0},
		{0, true, 0},
		{0, false, 20 * time.Minute},
		{20*time.Minute - time.Microsecond, false, time.Microsecond},
		{20 * time.Minute, true, 0},
		{20 * time.Minute, false, 20 * time.Minute},
		{24 * time.Hour, true, 0},
	} {
		next, result, err := signups.Step(nil, state, noon.Add(step.after), 1)
		if err != nil {
			t.Fatal(err)
		}
		if result.Allowed != step.allowed || result.RetryAfter != step.retryAfter {
			t.Errorf("after %v: got %v and RetryAfter %v, want %v and %v",
				step.after, result.Allowed, result.RetryAfter, step.allowed, step.retryAfter)
		}
		state = next
	}
}

// Bound is the most that the policy admits in any hour, whatever the times of the calls.
func TestBound(t *testing.T) {
	if got := signups.Bound(time.Hour); got != 5 {
		t.Errorf("got %d signups in an hour, want 5", got)
	}
}

// The test sets the clock of the limiter.
func TestLimiterWithAClock(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	limiter, err := newLimiter(nil, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, true, false} {
		d, err := limiter.Allow(t.Context(), "192.0.2.1")
		if err != nil || d.Allowed != want {
			t.Errorf("got %v and error %v, want %v", d.Allowed, err, want)
		}
	}
	now = now.Add(20 * time.Minute)
	d, err := limiter.Allow(t.Context(), "192.0.2.1")
	if err != nil || !d.Allowed {
		t.Errorf("20 minutes later: got %v and error %v", d.Allowed, err)
	}
}

// Under testing/synctest the limiter needs no clock, and Wait takes no real time.
func TestLimiterUnderSynctest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := newLimiter(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 4 {
			if _, err := limiter.Wait(t.Context(), "192.0.2.1"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 40*time.Minute {
			t.Errorf("4 signups took %v, want 40m", took)
		}
	})
}

// A trace lists calls and the decisions that they must get. SLUICE_UPDATE=1 go test writes the decisions.
func TestTraces(t *testing.T) { sluicetest.Traces(t, "testdata/*.trace") }

// A trace has a policy of its own, so a test compares it with that of the program.
func TestTraceHasThePolicy(t *testing.T) {
	trace, err := os.ReadFile("testdata/signups.trace")
	if err != nil {
		t.Fatal(err)
	}
	if line := "policy " + signups.String() + "\n"; !strings.Contains(string(trace), line) {
		t.Errorf("the trace has no line %q", line)
	}
}

// A test begins and ends an outage of the store. Under testing/synctest the timeout of the limiter takes no real time.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store sluicetest.Store
		limiter, err := newLimiter(&store, nil)
		if err != nil {
			t.Fatal(err)
		}
		store.Hang()
		if _, err := limiter.Allow(t.Context(), "192.0.2.1"); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("during the outage: got the error %v, want %v", err, storage.ErrUnavailable)
		}
		store.Recover()
		time.Sleep(2 * time.Second) // the circuit breaker closes after a second without calls
		if d, err := limiter.Allow(t.Context(), "192.0.2.1"); err != nil || !d.Allowed {
			t.Errorf("after the outage: got %v and error %v", d.Allowed, err)
		}
	})
}
