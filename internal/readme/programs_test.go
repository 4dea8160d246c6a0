package readme

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
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
