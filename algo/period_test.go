package algo_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
)

func TestFormatDurationOmitsTrailingZeroUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                         "0s",
		1:                         "1ns",
		10 * time.Second:          "10s",
		time.Minute:               "1m",
		10 * time.Minute:          "10m",
		time.Hour:                 "1h",
		100 * time.Hour:           "100h",
		time.Hour + time.Second:   "1h0m1s",
		70 * time.Minute:          "1h10m",
		-15 * time.Minute:         "-15m",
		1500 * time.Millisecond:   "1.5s",
		math.MaxInt64:             "2562047h47m16.854775807s",
		time.Minute + time.Second: "1m1s",
	} {
		require.Equal(t, want, algo.FormatDuration(d))
		back, err := time.ParseDuration(want)
		require.NoError(t, err)
		require.Equal(t, d, back)
	}
}

func ExampleFormatDuration() {
	fmt.Println(algo.FormatDuration(36 * time.Hour))
	// Output: 36h
}
