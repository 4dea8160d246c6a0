package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShareLimitIsRoundedDown(t *testing.T) {
	for _, c := range []struct {
		text     string
		requests int64
		most     int64
	}{
		{"0", 100, 0},
		{"100", 5, 100},
		{"007", 5, 7},
		{"0%", 1000, 0},
		{"0.1%", 999, 0},
		{"0.1%", 1000, 1},
		{"0.1%", 1999, 1},
		{"0.1%", 2000, 2},
		{"10%", 10, 1},
		{"10%", 9, 0},
		{"33.333333333333333333%", 3, 0},
		{"100%", 7, 7},
		{"100.000%", 7, 7},
		{"7%", 100, 7},                          // as a float64, 0.07*100 is above 7
		{"0.29%", 10000, 29},                    // as a float64, it is below 29
		{"0.000000000000000001%", 1e18, 0},      // 0.01 requests
		{"50%", 9223372036854775807, 1<<62 - 1}, // no overflow
		{"999999999999999999", 1, 999999999999999999},
	} {
		var l shareLimit
		require.NoError(t, l.Set(c.text), c.text)
		require.Equal(t, c.most, l.most(c.requests), "%s of %d", c.text, c.requests)
		require.Equal(t, c.text, l.String())
	}
}

func TestInvalidShareLimits(t *testing.T) {
	for _, text := range []string{"", "-1", "+1", "-1%", "101%", "100.01%", "abc", "1.5", "1e3", "0x10", "1/2", "1_000", " 1", "1 %", "%", ".1%", "1.%", "١%", "1%%", "inf%", "NaN", strings.Repeat("9", 19), "0." + strings.Repeat("0", 19) + "%", "\n1"} {
		var l shareLimit
		require.ErrorContains(t, l.Set(text), "such as 100, or a share of all requests from 0% to 100%, such as 0.1%", "%q", text)
		require.Empty(t, l.text)
	}
}
