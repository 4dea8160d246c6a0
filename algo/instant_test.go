// The tests promise that every valid spec of a limit is parsed and formatted exactly; that the error for
// any other spec quotes it and names the fault; and that instants and durations are converted
// exactly.
package algo_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
)

func TestInstantIsClampedToItsRange(t *testing.T) {
	last := time.UnixMicro(algo.MaxInstant)
	for at, want := range map[time.Time]int64{
		{}:                    0,
		time.Unix(-1, 0):      0,
		time.Unix(0, -1):      0,
		time.Unix(0, 0):       0,
		time.Unix(0, 999):     0,
		time.Unix(0, 1000):    1,
		time.Unix(1, 2999):    1_000_002,
		last.Add(-1):          algo.MaxInstant - 1,
		last:                  algo.MaxInstant,
		last.Add(1):           algo.MaxInstant,
		last.Add(time.Second): algo.MaxInstant,
		time.Unix(1<<62, 0):   algo.MaxInstant,
		time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC): algo.MaxInstant,
	} {
		require.Equal(t, want, algo.Instant(at), at)
		require.Equal(t, want, algo.Instant(at.In(time.FixedZone("east", 3600))), at)
	}
}

func ExampleInstant() {
	fmt.Println(algo.Instant(time.Unix(1, 5000)), algo.Instant(time.Time{}))
	// Output: 1000005 0
}

func TestMicrosecondsIsTheLargestDifferenceOfInstants(t *testing.T) {
	for d := time.Duration(1); d < 3100; d++ {
		most := int64(0)
		for from := range int64(1000) {
			most = max(most, algo.Instant(time.Unix(0, from+int64(d)-1))-algo.Instant(time.Unix(0, from)))
		}
		require.Equal(t, most, algo.Microseconds(d), d)
	}
	require.Equal(t, int64(math.MaxInt64/1000+1), algo.Microseconds(math.MaxInt64))
}
