package readme

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
)

func TestSignupLimit(t *testing.T) {
	limit := gcra.Options{Limit: algo.Per(3, time.Hour), Burst: 2}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

	s, _ := gcra.Step(gcra.State{}, noon, limit)
	s, _ = gcra.Step(s, noon, limit)
	s, r := gcra.Step(s, noon, limit)
	if r.Allowed || r.RetryAfter != 20*time.Minute {
		t.Errorf("third signup at once: %+v", r)
	}
	if _, r = gcra.Step(s, noon.Add(20*time.Minute), limit); !r.Allowed {
		t.Errorf("20 minutes later: %+v", r)
	}
}
