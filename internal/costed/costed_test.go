// These tests promise that String is the inverse of Parse, and what ParseRate refuses.
package costed_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/costed"
)

func TestStringHasTheCostUnlessItIsOne(t *testing.T) {
	for spec, want := range map[string]string{
		"gcra 10/s":                                "gcra 10/s",
		"gcra 10/s burst=10 cost=1":                "gcra 10/s",
		"gcra 10/s cost=2":                         "gcra 10/s cost=2",
		"all(gcra 10/s;gcra 100/m)  cost=7":        "all(gcra 10/s; gcra 100/m) cost=7",
		"fixedwindow 5/h cost=9223372036854775807": "fixedwindow 5/h cost=9223372036854775807",
	} {
		p, err := costed.Parse(spec)
		require.NoError(t, err)
		require.Equal(t, want, p.String())
		again, err := costed.Parse(want)
		require.NoError(t, err)
		require.Equal(t, p.Cost, again.Cost)
	}
	for spec, want := range map[string]int64{
		"gcra 100/m":                       1,
		"gcra 5/250ms burst=20 cost=3 ":    3,
		"all(gcra 10/s; gcra 100/m)cost=5": 5,
		"gcra 100/m\u00a0cost=2\u2003":     2,
	} {
		p, err := costed.Parse(spec)
		require.NoError(t, err)
		require.Equal(t, want, p.Cost)
	}
}

func TestErrorShowsTheWholeSpec(t *testing.T) {
	for spec, want := range map[string]string{
		"gcra 10/s cost=0":                        `column 11: cost= takes a whole number of units from 1, not "0"`,
		"gcra 10/s cost=":                         `column 11: cost= takes a whole number of units from 1, not ""`,
		"all(gcra 10/s)cost=99999999999999999999": `column 15: cost= takes a whole number of units from 1, not "99999999999999999999"`,
		"gcra 10/s brust=2 cost=3":                `column 11: unknown option "brust"; gcra takes burst=; did you mean burst=?`,
		"gcra 10/s cost=2 burst=20":               "column 11: cost= is not an option of a policy",
		"gcra 10/s cost=2 cost=2":                 "column 11: cost= is not an option of a policy",
		"all(gcra 10/s) cost=2 cost=2":            "column 16: cost= is not an option of a policy",
		"all(gcra 10/s; gcra 1/m cost=2)":         "column 25: cost= is not an option of a policy",
		"cost=2":                                  `column 1: unknown algorithm "cost=2"`,
	} {
		_, err := costed.Parse(spec)
		var fault *compose.SpecError
		require.ErrorAs(t, err, &fault)
		require.Equal(t, spec, fault.Spec)
		require.ErrorContains(t, err, want)
	}
}

func TestParseRateRefusesHeldUnits(t *testing.T) {
	p, err := costed.ParseRate("gcra 10/s cost=2", "nobody knows")
	require.NoError(t, err)
	require.Equal(t, "gcra 10/s cost=2", p.String())
	_, err = costed.ParseRate("  inflight 20 ttl=30s", "nobody knows when a request ends")
	require.EqualError(t, err, `compose: policy "  inflight 20 ttl=30s", column 3: inflight limits requests at the same time, and nobody knows when a request ends; want a rate, such as gcra 100/m`)
	_, err = costed.ParseRate("inflight 20", "nobody knows")
	require.ErrorContains(t, err, "inflight needs ttl=")
}
