package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// TestPartsAreExactAndRoundedDown: floating-point numbers would give 1 more or less in some of these cases.
func TestPartsAreExactAndRoundedDown(t *testing.T) {
	for _, c := range []struct {
		share       string
		total, want int64
	}{
		{"0%", 1000, 0},
		{"0.1%", 999, 0},
		{"0.1%", 1000, 1},
		{"0.1%", 1999, 1},
		{"33.333333333333333333%", 3, 0},
		{"100.000%", 7, 7},
		{"7%", 100, 7},
		{"0.29%", 10000, 29},
		{"00.1%", 5328, 5},
		{"0.000000000000000001%", 1e18, 0},
		{"50%", 1<<63 - 1, 1<<62 - 1}, // no overflow
	} {
		share, ok := cli.ParsePercentage(c.share)
		require.True(t, ok, c.share)
		require.Equal(t, c.want, cli.Part(share, c.total), "%s of %d", c.share, c.total)
	}
}

func TestInvalidPercentages(t *testing.T) {
	for _, text := range []string{"", "-1%", "+1%", "101%", "100.01%", "100.000000000000000001%", "abc", "1", "1e1%", "0x10%", "1/2%", "1_0%", " 1%", "1 %", "%", ".1%", "1.%", "99,9%", "١%",
		"1%%", "inf%", "1%\n", "1000%", "0." + strings.Repeat("0", 19) + "%"} {
		_, ok := cli.ParsePercentage(text)
		require.False(t, ok, "%q", text)
	}
}
