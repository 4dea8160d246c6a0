// These tests promise that String is the inverse of Parse, and what ParseRate refuses.
package costed_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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
	_, err := costed.Parse("gcra 10/s cost=0")
	require.ErrorContains(t, err, `cost= takes a whole number of units from 1, not "0"`)
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
