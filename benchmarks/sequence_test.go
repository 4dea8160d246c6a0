package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sequence is the keys of the calls, the same for every limiter. Keys are random, and all are
// equally likely.
//
// As in a server, every call has its own string. It is not a pointer to memory of a limiter,
// and it lies behind the string of the call before, so that reading it is fast.
type sequence struct {
	keys  []string
	order []uint32 // indexes of keys; a power of two of them, which repeat
	calls []string // the keys in that order
}

const sequenceSeed = 20260101

func newSequence(keys int) *sequence {
	random := rand.New(rand.NewPCG(sequenceSeed, uint64(keys)))
	t := &sequence{keys: make([]string, keys), order: make([]uint32, 1<<20), calls: make([]string, 1<<20)}
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

// keyOf returns the i-th key, of 16 bytes.
func keyOf(i int) string { return fmt.Sprintf("%016x", uint64(i+1)*0x9e3779b97f4a7c15) }

func (t *sequence) key(i int) string { return t.calls[i&(len(t.calls)-1)] }

// A memoryLimiter is a limiter in memory, or a floor. open returns a function that decides one
// call, with a limit of count calls per period and key.
type memoryLimiter struct {
	name string
	open func(t testing.TB, count int64, period time.Duration) func(key string) (allowed bool)
}

// inMemory are the limiters in memory, sluice first.
var inMemory = []memoryLimiter{sluiceMemory, sethvargoMemory, throttledMemory, ululeMemory, httprateMemory, rateMap}

// forOneGoroutine are limiters that take part only in workloads of one goroutine.
var forOneGoroutine = []memoryLimiter{rateMaps(1), sluiceRules(2), rateMaps(2), sluiceRules(3), rateMaps(3)}

// The period is six years, so no units come back during the test.
func TestMemoryLimitersDecideCorrectly(t *testing.T) {
	const keys, count, calls = 1000, 5, 6000
	sequence := newSequence(keys)
	for _, s := range slices.Concat(inMemory, forOneGoroutine) {
		t.Run(s.name, func(t *testing.T) {
			allow := s.open(t, count, 50_000*time.Hour)
			requireExact(t, count, calls, sequence, func(key string) (bool, error) { return allow(key), nil })
		})
	}
}

// requireExact requires that calls for the keys of the sequence are allowed count times for each key.
func requireExact(t *testing.T, count int64, calls int, keys *sequence, decide func(key string) (bool, error)) {
	t.Helper()
	used := map[string]int64{}
	for i := range calls {
		key := keys.key(i)
		allowed, err := decide(key)
		require.NoError(t, err)
		require.Equal(t, used[key] < count, allowed, "call %d, of a key that has used %d of %d", i, used[key], count)
		if allowed {
			used[key]++
		}
	}
}

// highLimit and highLimitPeriod allow all calls of the benchmarks. The period is longer than a
// run, because sethvargo/go-limiter refills a bucket with interval/tokens when an interval ends:
// here with only 900 of 10^9 tokens.
const highLimit, highLimitPeriod = 1_000_000_000, 15 * time.Minute
