package readme

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
)

func TestSignupLimit(t *testing.T) {
	policy := sluice.MustPolicy("gcra 3/h burst=2")
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var state []byte // nil: the key was never used
	step := func(at time.Time) algo.Result {
		next, result, err := policy.Step(nil, state, at, 1)
		if err != nil {
			t.Fatal(err)
		}
		state = next
		return result
	}

	step(noon)
	step(noon)
	if r := step(noon); r.Allowed || r.RetryAfter != 20*time.Minute {
		t.Errorf("third signup at once: %+v", r)
	}
	if r := step(noon.Add(20 * time.Minute)); !r.Allowed {
		t.Errorf("20 minutes later: %+v", r)
	}
}
