package readme

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
)

// The policies are on both sides of the bounds in docs/operation.md: 2500h is less than 2^53 ns, and
// 2502h is more.
func TestPoliciesAboveTheDocumentedBoundsRunInGo(t *testing.T) {
	for spec, portable := range map[string]bool{
		"gcra 1000/2500h burst=100":                      true,
		"gcra 1000/2502h burst=100":                      false,
		"gcra 10000/24h":                                 true,
		"gcra 7/d burst=50":                              true,
		"gcra 7/d burst=60":                              false,
		"tokenbucket 1/1252h burst=1":                    false,
		"tokenbucket 1/1250h burst=1":                    true,
		"tokenbucket 7/24h burst=60":                     false,
		"tokenbucket 10/1250h refill=interval":           true,
		"tokenbucket 10/1251h refill=interval":           false,
		"tokenbucket 10/1252h refill=interval":           false,
		"tokenbucket 10/626h burst=20 refill=interval":   false,
		"fixedwindow 1000/1250h":                         true,
		"fixedwindow 1000/1252h":                         false,
		"fixedwindow 4503599627370495/h":                 true,
		"fixedwindow 4503599627370496/h":                 false,
		"movingwindow 1000/2304h slots=12":               true,
		"movingwindow 1000/2400h slots=12":               false,
		"movingwindow 1000/1252h slots=2 trailing=whole": false,
		"all(gcra 10/s; gcra 100/m)":                     true,
		"all(gcra 10/s; fixedwindow 1000/1252h)":         false,
	} {
		policy, ok := parse(t, spec).(algo.Portable)
		require.True(t, ok, spec)
		_, ok = policy.Program()
		require.Equal(t, portable, ok, spec)
	}
}
