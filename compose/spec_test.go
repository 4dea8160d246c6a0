package compose_test

// These tests promise that ParsePolicy and String are inverse, and that an error shows the
// word at fault and what would be valid. suggestion_test.go applies the suggestions.

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func TestStringIsTheShortestSpec(t *testing.T) {
	for _, spec := range [][2]string{
		{"fixedwindow 1099511627776/625499h50m", "fixedwindow 1099511627776/625499h50m"},
		{"all(gcra 10/s; tokenbucket 100/m burst=20)", "all(gcra 10/s; tokenbucket 100/m burst=20)"},
		{"penalty( fixedwindow 5/15min;for=60m )", "penalty(fixedwindow 5/15m; for=1h)"},
		{" gcra\t60/1m   burst=60 ", "gcra 60/m"},
		{"gcra 100/min burst=20", "gcra 100/m burst=20"},
		{"fixedwindow 5/hour", "fixedwindow 5/h"},
		{"tokenbucket 10/1s refill=continuous burst=10", "tokenbucket 10/s"},
		{"fixedwindow 10/s offset=0s align=first", "fixedwindow 10/s"},
		{"fixedwindow 10/7d align=clock offset=4d", "fixedwindow 10/7d align=clock offset=96h"},
		{"fixedwindow 10/7d align=clock offset=-3d", "fixedwindow 10/7d align=clock offset=-72h"},
		{"movingwindow 10/s trailing=weighted slots=1", "movingwindow 10/s"},
		{"gcra " + strings.Repeat("0", 100) + "10/1." + strings.Repeat("0", 100) + "s", "gcra 10/s"},
		{"inflight 20 ttl=1day", "inflight 20 ttl=24h"},
		{"all ( gcra 1/s;all(gcra 2/s ;gcra 3/s) ; gcra 4/s )", "all(gcra 1/s; gcra 2/s; gcra 3/s; gcra 4/s)"},
	} {
		p := mustPolicy(spec[0])
		require.Equal(t, spec[1], p.String())
		require.Equal(t, effectOf(t, mustPolicy(spec[1])), effectOf(t, p))
	}
}

func TestErrorShowsTheWordAtFault(t *testing.T) {
	tracetest.Answers(t, "testdata/errors.txt", func(spec string) string {
		_, err := compose.ParsePolicy(spec)
		var e *compose.SpecError
		require.ErrorAs(t, err, &e, spec)
		end := e.Offset + len(e.Word)
		require.Equal(t, e.Word, e.Spec[e.Offset:end])
		return e.Spec[:e.Offset] + "«" + e.Word + "»" + e.Spec[end:] + ": " + e.Problem
	})
}

func TestErrorOfAHostileSpecIsShort(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, spec := range []string{
		strings.Repeat("all(", 1<<20),
		strings.Repeat("all(", 1<<12),
		"all(" + strings.Repeat("gcra 1/s;", 64) + "gcra 1/s)", "gcra 100/2 " + long,
		long, "gcra " + long, "gcra 1/" + long, "gcra " + strings.Repeat("9", 5000) + "/s", "gcra 1/s " + long, "gcra 1/s burst=" + long, "gcra 1/s " + long + "=1", "gcra 1/s)" + long, "gcra 10/s \x00",
	} {
		_, err := compose.ParsePolicy(spec)
		require.Error(t, err)
		require.Less(t, len(err.Error()), 600)
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Fuzz(func(t *testing.T, spec string) {
		p, err := compose.ParsePolicy(spec)
		if err != nil {
			var e *compose.SpecError
			require.ErrorAs(t, err, &e)
			require.True(t, strings.HasPrefix(e.Spec[e.Offset:], e.Word))
			require.NotContains(t, err.Error(), "\n")
			_ = e.Caret()
			if e.Err != nil { // each has a message in terms of specs
				require.Regexp(t, "limit|Offset is for AlignClock|All takes at most|units are held", e.Err.Error())
			}
			return
		}
		again, err := compose.ParsePolicy(p.String())
		require.NoError(t, err)
		require.Equal(t, p.String(), again.String())
		require.Equal(t, effectOf(t, p), effectOf(t, again))
	})
}

// effectOf returns what the options of a policy determine: its program, its bounds, and its result
// for a new key.
func effectOf(t *testing.T, p algo.Policy) []any {
	r, err := p.Peek(nil, time.Unix(1e9, 7), 1)
	require.NoError(t, err)
	return []any{policy.ProgramOf(p), r, p.Limit(), p.Bound(time.Second), p.Bound(time.Hour)}
}
