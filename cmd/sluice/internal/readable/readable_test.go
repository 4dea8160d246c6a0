package readable_test

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func TestDurations(t *testing.T) {
	tracetest.Answers(t, "testdata/durations.txt", func(text string) string {
		d, err := time.ParseDuration(text)
		require.NoError(t, err)
		return readable.Exact(d) + ", " + readable.Rounded(d)
	})
	require.Equal(t, "2562047h47m16.854775807s", readable.Exact(math.MaxInt64))
	short := regexp.MustCompile(`^.{1,7}$`)
	for d := time.Duration(1); d < 365*24*time.Hour; d += d/3 + 1 {
		require.Regexp(t, short, readable.Rounded(d), d.String())
	}
}
