// The tests promise that each law finds the algorithms that break it, and that no other law does
// (saboteur_test.go); that a simple algorithm without a flaw obeys every law (reference_test.go); that the
// oracles are right; and that a report shows a short history.
package algotest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
)

// at returns the instant that many us after the epoch of traces.
func at(us int64) time.Time { return epoch.Add(micros(us)) }

func ExampleLog() {
	noon := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)
	var log Log
	log.Add(noon, 3)
	log.Add(noon.Add(59*time.Second), 5)
	log.Add(noon.Add(61*time.Second), 5)
	fmt.Println(log.Admitted(noon, time.Minute), log.Worst(time.Minute))
	// Output: 8 10
}

func TestIntervalsAreHalfOpen(t *testing.T) {
	var log Log
	log.Add(at(0), 1)
	log.Add(at(10), 1)
	require.EqualValues(t, 1, log.Worst(micros(10)), "10us are the instants 0 to 9")
	require.EqualValues(t, 2, log.Worst(micros(11)))
	require.EqualValues(t, 0, log.Worst(0))
	require.EqualValues(t, 1, log.Admitted(at(1), micros(10)))
	require.EqualValues(t, 0, log.Admitted(at(1), micros(9)))
}

func TestWorstIntervalMayEndBeforeARefund(t *testing.T) {
	var log Log
	log.Add(at(0), 5)
	log.Add(at(4), 2)
	log.Add(at(8), -5)
	log.Add(at(20), 6)
	require.EqualValues(t, 7, log.Worst(micros(9)), "[-1us, 8us)")
	require.EqualValues(t, 6, log.Worst(micros(4)), "[20us, 24us)")
}

func ExampleBucket() {
	noon := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)
	var log Log
	log.Add(noon, 3)
	left := Bucket(algo.Per(10, time.Second), 3)
	fmt.Println(left(log, noon), left(log, noon.Add(99*time.Millisecond)), left(log, noon.Add(100*time.Millisecond)))
	// Output: 0 0 1
}

// All units of a minute are taken at once, 20 seconds after noon.
func ExampleOracle() {
	noon := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)
	var log Log
	log.Add(noon.Add(20*time.Second), 60)

	limit := algo.Per(60, time.Minute)
	for _, oracle := range []struct {
		name string
		left Oracle
	}{
		{"Bucket", Bucket(limit, 60)},
		{"IntervalBucket", IntervalBucket(limit, 60)},
		{"WindowFromFirst", WindowFromFirst(limit)},
		{"WindowByClock", WindowByClock(limit, 0)},
		{"MovingWindow", MovingWindow(limit, 6, false)},
	} {
		fmt.Printf("%-15s", oracle.name)
		for _, second := range []time.Duration{20, 50, 60, 80, 85, 90} {
			fmt.Printf(" %2d", oracle.left(log, noon.Add(second*time.Second)))
		}
		fmt.Println()
	}
	// Output:
	// Bucket           0 30 40 60 60 60
	// IntervalBucket   0  0  0 60 60 60
	// WindowFromFirst  0  0  0 60 60 60
	// WindowByClock    0  0 60 60 60 60
	// MovingWindow     0  0  0  0 30 60
}

func TestRefundOfEverythingClosesTheWindowFromTheFirst(t *testing.T) {
	var log Log
	log.Add(at(3), 1)
	log.Add(at(5), -1)
	log.Add(at(12), 2)
	left := WindowFromFirst(algo.Per(3, micros(10)))
	require.EqualValues(t, 1, left(log, at(21)))
	require.EqualValues(t, 3, left(log, at(22)))
}
