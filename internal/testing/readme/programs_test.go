package readme

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// docs/operation.md promises that every policy runs on the server.
func TestEveryPolicyHasAProgram(t *testing.T) {
	for _, spec := range []string{
		"gcra 7/d burst=60", "gcra 1/26000d", "gcra 1234567/30d", "gcra 1099511627776/us", "tokenbucket 7/24h burst=60", "tokenbucket 10/626h burst=20 refill=interval",
		"fixedwindow 1099511627776/26062d", "movingwindow 1099511627776/26062d", "movingwindow 1000/2400h slots=12", "all(gcra 10/s; fixedwindow 1000/1252h)",
	} {
		_, ok := parse(t, spec).(algo.Portable).Program()
		require.True(t, ok, spec)
	}
}

// docs/policies.md gives these ranges: counts and bursts up to 2^40, and periods and refill times of bursts up to 71 years.
func TestOnlyLimitsInTheDocumentedRangesAreAccepted(t *testing.T) {
	page := readFile(t, root, "docs/policies.md")
	for _, number := range []string{"2^40", "26062d"} {
		require.Contains(t, page, number)
	}
	for spec, valid := range map[string]bool{
		"fixedwindow 1099511627776/h":         true,
		"fixedwindow 1099511627777/h":         false,
		"gcra 1000000/s burst=1099511627776":  true,
		"gcra 1000000/s burst=1099511627777":  false,
		"movingwindow 1/26062d":               true,
		"movingwindow 1/26063d":               false,
		"gcra 1/d burst=26062":                true,
		"gcra 1/d burst=26063":                false,
		"tokenbucket 1/1500ns":                false,
		"tokenbucket 1/d burst=26062":         true,
		"tokenbucket 1/d burst=26063":         false,
		"gcra 1234567/30d":                    true,
		"movingwindow 1099511627776/26062d":   true,
		"tokenbucket 1/1us refill=continuous": true,
	} {
		_, err := compose.ParsePolicy(spec)
		require.Equal(t, valid, err == nil, "%s: %v", spec, err)
	}
}
