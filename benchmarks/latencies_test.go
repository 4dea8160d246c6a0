package benchmarks

import (
	"math/bits"
	"time"
)

// latencies is a histogram of durations. A bucket is at most 1/64 of its durations wide, so
// percentiles are within 1%. Its size does not grow with the number of calls.
type latencies []uint32

// halfBuckets is the number of buckets for each doubling of the duration.
const halfBuckets = 64

// newLatencies returns a histogram for durations up to 68 s.
func newLatencies() latencies { return make(latencies, bucketOf(1<<36)) }

func (l latencies) add(d time.Duration) { l[min(bucketOf(d), len(l)-1)]++ }

func (l latencies) merge(other latencies) {
	for i, n := range other {
		l[i] += n
	}
}

// percentile returns the duration that p percent of the calls do not exceed.
func (l latencies) percentile(p uint64) time.Duration {
	var all, seen uint64
	for _, n := range l {
		all += uint64(n)
	}
	for i, n := range l {
		if seen += uint64(n); n > 0 && 100*seen >= p*all {
			return middleOf(i)
		}
	}
	return 0
}

func bucketOf(d time.Duration) int {
	n := uint64(max(d, 0))
	shift := max(0, bits.Len64(n)-7)
	return shift*halfBuckets + int(n>>shift)
}

func middleOf(bucket int) time.Duration {
	shift := max(0, bucket/halfBuckets-1)
	return time.Duration((bucket-shift*halfBuckets)<<shift + (1<<shift)/2)
}
