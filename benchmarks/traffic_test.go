package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// traffic is who asks, in which order: the same for every limiter. Each key is
// asked for once, in order of creation, and then at random, all alike.
//
// As in a server, every call comes with a string of its own, which lies where the
// last request was read: it is no pointer to what a limiter keeps, and to read it
// costs nothing that a limiter could spare.
type traffic struct {
	keys  []string
	order []uint32 // indexes of keys, a power of two of them, to be repeated
	calls []string // the keys in that order
}

const trafficSeed = 20260101

func newTraffic(keys int) *traffic {
	random := rand.New(rand.NewPCG(trafficSeed, uint64(keys)))
	t := &traffic{keys: make([]string, keys), order: make([]uint32, 1<<20), calls: make([]string, 1<<20)}
	for i := range t.keys {
		t.keys[i] = keyOf(i)
	}
	var all strings.Builder
	for i := range t.order {
		t.order[i] = uint32(random.IntN(keys))
		all.WriteString(t.keys[t.order[i]])
	}
	for i := range t.calls {
		t.calls[i] = all.String()[16*i : 16*(i+1)]
	}
	return t
}

// keyOf is the i-th key, of 16 bytes.
func keyOf(i int) string { return fmt.Sprintf("%016x", uint64(i+1)*0x9e3779b97f4a7c15) }

func (t *traffic) key(i int) string { return t.calls[i&(len(t.calls)-1)] }

// A subject is one limiter, ours or a peer's, that allows count calls per period
// and key. What open returns decides one call, and says whether it is allowed.
type subject struct {
	name string
	open func(t testing.TB, count int64, period time.Duration) func(key string) (allowed bool)
}

// inMemory are the limiters that keep their states in this process, ours first.
var inMemory = []subject{sluiceMemory, sethvargoMemory, throttledMemory, ululeMemory, httprateMemory, rateMap}

// TestTrafficIsWhatItSays holds the keys and their order to what the figures
// say of them.
func TestTrafficIsWhatItSays(t *testing.T) {
	for _, keys := range []int{1, 1000, 100_000, 1_000_000} {
		traffic := newTraffic(keys)
		distinct, times := make(map[string]bool, keys), make([]int, keys)
		for _, key := range traffic.keys {
			require.Len(t, key, 16)
			distinct[key] = true
		}
		require.Len(t, distinct, keys)
		touched, most := 0, 0
		for i, k := range traffic.order {
			if traffic.key(i) != traffic.keys[k] {
				t.Fatalf("call %d is of key %q, not %q", i, traffic.key(i), traffic.keys[k])
			}
			if times[k]++; times[k] == 1 {
				touched++
			}
			most = max(most, times[k])
		}
		// Of n keys drawn at random m times, n*(1-exp(-m/n)) come up.
		wanted := map[int]int{1: 1, 1000: 1000, 100_000: 99_997, 1_000_000: 649_567}[keys]
		require.InDelta(t, wanted, touched, 0.005*float64(wanted)+0.5)
		require.Less(t, float64(most), 2*float64(len(traffic.order))/float64(keys)+16, "no key is hot")
	}
}

// TestEveryLimiterDecidesAsTheOracle lets the limiters decide on traffic of
// which a part is denied. Nothing comes back in time: the period is six years.
func TestEveryLimiterDecidesAsTheOracle(t *testing.T) {
	const keys, count, calls = 1000, 5, 6000
	traffic := newTraffic(keys)
	for _, s := range inMemory {
		t.Run(s.name, func(t *testing.T) {
			allow, used := s.open(t, count, 50_000*time.Hour), make(map[string]int64)
			allowed, hits := 0, 0
			for i := range calls {
				key := traffic.key(i)
				if used[key] > 0 {
					hits++
				}
				want := used[key] < count
				if want {
					used[key]++
					allowed++
				}
				if got := allow(key); got != want {
					t.Fatalf("call %d, of a key that has used %d of %d: allowed is %v", i, used[key], count, got)
				}
			}
			require.InDelta(t, 0.83, float64(hits)/calls, 0.01, "of the calls are of keys seen before")
			require.InDelta(t, 0.73, float64(allowed)/calls, 0.03, "of the calls are allowed")
		})
	}
}

// plenty is a limit that allows all that the benchmarks ask, and its period. It
// is longer than a run, because sethvargo/go-limiter refills a bucket with
// interval/tokens when an interval ends: here with 900 of 10^9 tokens.
const plenty, plentyPeriod = 1_000_000_000, 15 * time.Minute

// TestPlentyIsAllowed holds the benchmarks to it that their calls are allowed.
func TestPlentyIsAllowed(t *testing.T) {
	traffic := newTraffic(10)
	for _, s := range inMemory {
		allow := s.open(t, plenty, plentyPeriod)
		for i := range 100_000 {
			require.True(t, allow(traffic.key(i)), s.name)
		}
	}
}
