package readme

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

func TestSignups(t *testing.T) {
	policy, state := sluice.MustPolicy("gcra 3/h burst=2"), []byte(nil) // no state: a new key
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, call := range []struct {
		at, retryAfter time.Duration
		allowed        bool
	}{
		{at: 0, allowed: true},
		{at: 0, allowed: true},
		{at: 0, retryAfter: 20 * time.Minute},
		{at: 19 * time.Minute, retryAfter: time.Minute},
		{at: 20 * time.Minute, allowed: true},
	} {
		next, result, err := policy.Step(nil, state, noon.Add(call.at), 1) // nil: no buffer for the next state
		if err != nil || result.Allowed != call.allowed || result.RetryAfter != call.retryAfter {
			t.Errorf("after %v: %+v, %v", call.at, result, err)
		}
		state = next
	}
}
