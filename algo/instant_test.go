// The tests promise that every valid spec of a limit is parsed and formatted exactly; that the error for
// any other spec quotes it and names the fault; and that instants and durations are converted
// exactly.
package algo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
)

func TestInstantIsClampedToItsRange(t *testing.T) {
	last := time.Unix(0, algo.MaxInstant)
	for at, want := range map[time.Time]int64{
		{}:                    0,
		time.Unix(-1, 0):      0,
		time.Unix(0, -1):      0,
		time.Unix(0, 0):       0,
		time.Unix(0, 1):       1,
		time.Unix(1, 2):       1_000_000_002,
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
	fmt.Println(algo.Instant(time.Unix(1, 5)), algo.Instant(time.Time{}))
	// Output: 1000000005 0
}
