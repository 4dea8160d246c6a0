package simulate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
)

// A browser reads no response before it has sent the whole log.
func TestALogWithTooManyRequestsIsReadToItsEnd(t *testing.T) {
	const line = "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n"
	read := func(requests, most int) (Stream, error) {
		log := strings.NewReader(strings.Repeat(line, requests))
		s, _, err := fromLog(t.Context(), most, accesslog.FromReader("log", log))
		require.Zero(t, log.Len())
		return s, err
	}
	s, err := read(20_000, 20_000)
	require.NoError(t, err)
	require.Len(t, s.Arrivals, 20_000)
	_, err = read(40_000, 20_000)
	require.ErrorContains(t, err, "the log has 40000 requests, but at most 20000 can be simulated here")
}
