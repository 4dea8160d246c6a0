package serve

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAnUpstreamThatReadsNoBodyIsTimedOut: the client sends its body at once.
func TestAnUpstreamThatReadsNoBodyIsTimedOut(t *testing.T) {
	for name, read := range map[string]int64{"nothing": 0, "a part": 1 << 19} {
		t.Run(name, func(t *testing.T) {
			proxied(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.CopyN(io.Discard, r.Body, read)
				time.Sleep(time.Hour)
			}, func(t *testing.T, front *pipes) {
				began := time.Now()
				response, _ := front.exchange(t, megabyte, onConn(drip(1<<16, 0, 1<<20)))
				require.Equal(t, http.StatusGatewayTimeout, response.StatusCode)
				require.Equal(t, time.Second, time.Since(began))
			}, responseWithin(time.Second))
		})
	}
}

// TestPausesOfTheClientAreNotPausesOfTheUpstream: the client pauses for longer than --upstream-timeout.
func TestPausesOfTheClientAreNotPausesOfTheUpstream(t *testing.T) {
	var length int64
	var failure error
	proxied(t, consume(&length, &failure), func(t *testing.T, front *pipes) {
		response, _ := front.exchange(t, megabyte, onConn(drip(1<<16, 5*time.Second, 1<<20)))
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.EqualValues(t, 1<<20, length)
	}, responseWithin(time.Second))
}

// TestTheBodyMayTakeLongAfterTheResponseHasBegun, as in a stream in both directions.
func TestTheBodyMayTakeLongAfterTheResponseHasBegun(t *testing.T) {
	proxied(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		time.Sleep(time.Minute)
		_, _ = io.Copy(w, r.Body)
	}, func(t *testing.T, front *pipes) {
		response, _ := front.exchange(t, megabyte, onConn(drip(1<<16, 0, 1<<20)))
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Len(t, contentOf(t, response.Body), 1<<20)
	}, responseWithin(time.Second))
}

func responseWithin(d time.Duration) func(*Options) {
	return func(o *Options) { o.UpstreamTimeout = d }
}
