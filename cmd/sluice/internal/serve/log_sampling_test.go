package serve

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLogSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged lines
		log := sampledTo(&logged)
		for range 100 {
			log.Warn("same", "error", "e")
		}
		log.Warn("other")
		log.Debug("not enabled")
		require.Equal(t, 3, strings.Count(logged.String(), "same"))
		require.Equal(t, 1, strings.Count(logged.String(), "other"))
		require.NotContains(t, logged.String(), "enabled")
		failures := errorLog(log, "failed")
		for i := range 10 {
			failures.Printf("connection %d", i)
		}
		require.Equal(t, 3, strings.Count(logged.String(), "msg=failed"))
		require.Contains(t, logged.String(), `error="connection 2"`)
		time.Sleep(10 * time.Second)
		log.Warn("same")
		require.Contains(t, logged.String(), "omitted=97")
	})
}
