package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
)

// A policy can admit far more than its limit in a period, and the page waits for the response. So a denial
// must not look at each allowed call.
func TestTheTimeOfADenialDoesNotGrowWithTheAllowedCalls(t *testing.T) {
	limit := algo.Per(1, time.Hour)
	elapsed := func(allowed int) time.Duration {
		var log exactLog
		for i := range allowed {
			log.add(limit, int64(i), 1)
		}
		began := time.Now()
		for range 500 {
			require.Equal(t, time.Hour-time.Microsecond, log.wait(limit, int64(allowed), 1))
		}
		return time.Since(began)
	}
	require.Less(t, elapsed(1_000_000), 50*elapsed(1_000))
}
