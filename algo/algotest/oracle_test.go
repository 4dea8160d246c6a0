// The tests promise that each law finds the algorithms that break it, and that no other law does
// (saboteur_test.go); that a simple algorithm without a flaw obeys every law (reference_test.go); that the
// oracles are right; and that a report shows a short history.
package algotest

import (
	"fmt"
	"math"
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

func TestSumsAreCappedAtMaxInt64(t *testing.T) {
	var log Log
	log.Add(at(0), math.MaxInt64)
	require.EqualValues(t, int64(math.MaxInt64), log.Worst(micros(1)))
	log.Add(at(0), 1)
	require.EqualValues(t, int64(math.MaxInt64), log.Worst(micros(1)))
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

type expected struct{ at, left int64 }

func TestOraclesOnShortLogs(t *testing.T) {
	for _, c := range []struct {
		name   string
		oracle Oracle
		log    [][2]int64 // instant, units
		want   []expected
	}{
		{"a bucket drains evenly", Bucket(algo.Per(3, micros(10)), 3), [][2]int64{{0, 3}}, []expected{{0, 0}, {3, 0}, {4, 1}, {6, 1}, {7, 2}, {9, 2}, {10, 3}, {99, 3}}},
		{"a bucket does not save up", Bucket(algo.Per(1, micros(10)), 2), [][2]int64{{0, 1}, {100, 2}}, []expected{{100, 0}, {109, 0}, {110, 1}, {120, 2}}},
		{"a debt drains first", Bucket(algo.Per(1, micros(10)), 2), [][2]int64{{0, 4}}, []expected{{0, -2}, {19, -1}, {20, 0}, {30, 1}}},
		{"a refund stops at full", Bucket(algo.Per(1, micros(10)), 2), [][2]int64{{0, 1}, {0, -5}, {0, 1}}, []expected{{0, 1}}},
		{"an interval comes at once", IntervalBucket(algo.Per(2, micros(10)), 5), [][2]int64{{0, 5}}, []expected{{9, 0}, {10, 2}, {19, 2}, {20, 4}, {30, 5}}},
		{"an interval counts from when it was full", IntervalBucket(algo.Per(2, micros(10)), 5), [][2]int64{{3, 1}, {17, 1}}, []expected{{26, 4}, {27, 5}}},
		{"a partial interval is kept", IntervalBucket(algo.Per(2, micros(10)), 5), [][2]int64{{0, 5}, {15, 2}}, []expected{{15, 0}, {19, 0}, {20, 2}}},
		{"a window opens with the first", WindowFromFirst(algo.Per(3, micros(10))), [][2]int64{{3, 1}, {12, 2}}, []expected{{12, 0}, {13, 3}, {99, 3}}},
		{"a refund of everything closes the window", WindowFromFirst(algo.Per(3, micros(10))), [][2]int64{{3, 1}, {5, -1}, {12, 2}}, []expected{{13, 1}, {21, 1}, {22, 3}}},
		{"a window by the clock", WindowByClock(algo.Per(3, micros(10)), micros(4)), [][2]int64{{3, 1}, {4, 2}}, []expected{{4, 1}, {13, 1}, {14, 3}}},
		{"a moving window of two counters", MovingWindow(algo.Per(10, micros(10)), 1, false), [][2]int64{{0, 10}}, []expected{{9, 0}, {10, 0}, {11, 1}, {15, 5}, {20, 10}}},
		{"a moving window of whole slots", MovingWindow(algo.Per(10, micros(10)), 2, true), [][2]int64{{0, 4}, {7, 3}}, []expected{{9, 3}, {14, 3}, {15, 7}, {19, 7}, {20, 10}}},
		{"slots are rounded up", MovingWindow(algo.Per(6, micros(10)), 3, true), [][2]int64{{0, 6}}, []expected{{15, 0}, {16, 6}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log Log
			for _, e := range c.log {
				log.Add(at(e[0]), e[1])
			}
			for _, a := range c.want {
				require.Equal(t, a.left, c.oracle(log, at(a.at)), "at %dus", a.at)
			}
		})
	}
}
