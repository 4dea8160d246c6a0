package algotest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The package comment shows the same report.
func TestReportShowsTheShortestHistory(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	testLaw(r, "RetryIsExact", subject(retriesEarly))
	require.Equal(t, strings.Join([]string{
		"algotest: law 5, RetryIsExact, is broken by reference (seed 1):",
		"    the same cost is denied until 1us before RetryAfter, and allowed at RetryAfter",
		"",
		"    cost 2 is denied at @0s with RetryAfter 1µs, and still denied at @1µs",
		"",
		"    policy reference 1/us",
		"    #at key cost    verdict left retry reset",
		"    @0s a   2    -> ok      0    0s    2µs",
		"    # checked at @0s, state 7201000000000000000200035d013b37e00000035d013b37e0000000000000000000",
		"    # step   @0s cost 2: deny, left 0, retry 1µs, next 1µs, reset 2µs",
		"    # peek   @1µs cost 2: deny, left 1, retry 1µs, next 1µs, reset 1µs",
	}, "\n"), strings.Join(r.errors, "\n"))

	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, line := range strings.Split(r.errors[0], "\n") {
		if !strings.Contains(line, "state 72") {
			require.Contains(t, string(doc), line)
		}
	}
}

func TestRefundsAndChargesAreThoseOfTraces(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	testLaw(r, "LimitMayChange", subject(keepsOldRate))
	require.Contains(t, r.errors[0], "\n    @0s a   charge:2 -> ok      0    0s    2µs\n")
	testLaw(r, "BoundHolds", subject(refundsSpeedUp))
	require.Regexp(t, `\n    @\S+ a   refund:\d+ +-> ok +\d+ +0s +\S+\n`, r.errors[1])
}

func TestOffsetsAreThoseOfTraces(t *testing.T) {
	require.Equal(t, "@0s", offset(epoch.UnixMicro()).String())
	require.Equal(t, "@1.5s", offset(at(1_500_000).UnixMicro()).String())
	require.Equal(t, "@-262968h0m0s", offset(0).String())
}
