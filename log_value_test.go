package sluice_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
)

func TestLogValues(t *testing.T) {
	for want, value := range map[string]any{
		"v.allowed=true v.rule=user v.remaining=3": sluice.Decision{Allowed: true, Rule: "user", Remaining: 3, Attempts: 1},
		"v.allowed=false v.rule=user v.remaining=0 v.retry_after=1m0s v.cached=true v.attempts=2 v.skew=1s v.err=ahead": sluice.Decision{
			Rule: "user", RetryAfter: time.Minute, Cached: true, Attempts: 2, Skew: time.Second, Err: errors.New("ahead"),
			Results: []sluice.RuleResult{{Rule: "user", Key: "secret"}},
		},
		`v.allowed=true v.rule="" v.remaining=0 v.prepaid=true v.degraded=true`: sluice.Decision{Allowed: true, Degraded: true, Prepaid: true},
		"v.op=allow v.outcome=allowed v.duration=5ms v.allowed=true v.rule=user v.remaining=3": sluice.Event{
			Op: sluice.OpAllow, Outcome: sluice.Allowed, Duration: 5 * time.Millisecond, Decision: sluice.Decision{Allowed: true, Rule: "user", Remaining: 3},
		},
		"v.op=reset v.outcome=failed v.duration=0s v.err=outage": sluice.Event{Op: sluice.OpReset, Outcome: sluice.Failed, Err: errors.New("outage")},
		`v.op=allow v.outcome=failed v.duration=0s v.err="sluice: rule \"user\": damaged"`: sluice.Event{
			Op: sluice.OpAllow, Outcome: sluice.Failed, Err: fmt.Errorf("wrapped: %w", &sluice.RuleError{Rule: "user", Key: "secret", Err: errors.New("damaged")}),
		},
	} {
		var b bytes.Buffer
		slog.New(slog.NewTextHandler(&b, nil)).Info("m", "v", value)
		require.Contains(t, b.String(), "msg=m "+want+"\n")
	}
}
