package readable_test

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
)

const day = 24 * time.Hour

func TestExactWritesWholeDaysAsDays(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Minute: "1m", day: "24h", 2 * day: "2d", 7 * day: "7d", 365 * day: "365d", 36 * time.Hour: "36h",
		7*day + time.Second: "168h0m1s", 281690141: "281.690141ms", math.MaxInt64: "2562047h47m16.854775807s", -7 * day: "-168h",
	} {
		require.Equal(t, want, readable.Exact(d))
	}
}

func TestRoundedIsShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1: "1ns", 999: "999ns", 1234: "1.23µs", 281690141: "282ms", 999_999_999: "1s", 9_999: "10µs",
		time.Second: "1s", 2571_000_000: "2.571s", 59_999_999 * time.Microsecond: "1m", 61_387 * time.Millisecond: "1m1s",
		time.Hour - 1: "1h", 9*time.Hour + 7*time.Minute + 12*time.Second: "9h7m", 7*day - time.Second: "7d", 7 * day: "7d", 50*time.Hour + time.Minute: "2d2h", 2*day - 1: "2d", 167 * time.Hour: "6d23h", 70*day + 5*time.Hour: "70d5h",
	} {
		require.Equal(t, want, readable.Rounded(d))
	}
	short := regexp.MustCompile(`^.{1,7}$`)
	for d := time.Duration(1); d < 365*day; d += d/3 + 1 {
		require.Regexp(t, short, readable.Rounded(d), d.String())
	}
}
