package tokenbucket_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/algorithmtest"
	"github.com/sluice-go/sluice/internal/sample"
	"github.com/sluice-go/sluice/tokenbucket"
	"github.com/stretchr/testify/require"
)

// While the clock does not step back, every field of every result is that of gcra.
func TestContinuousRefillDecidesLikeGCRA(t *testing.T) {
	random := sample.New(2, 2)
	for range algorithmtest.Rounds(5000) {
		o := anyOptions(random)
		o.Refill = tokenbucket.Continuous
		var bucket tokenbucket.State
		var cells gcra.State
		run(t, random, o, true, func(op algorithm.Op, at, cost int64) (r algo.Result) {
			var want algo.Result
			cells, want = callGCRA(cells, op, at, o, cost)
			bucket, r = kit.CallAt(bucket, op, at, o, cost)
			require.Equal(t, want, r, "%v: operation %d at %d, cost %d", o, op, at, cost)
			return r
		})
	}
}

func callGCRA(s gcra.State, op algorithm.Op, at int64, o tokenbucket.Options, cost int64) (gcra.State, algo.Result) {
	now, g := time.Unix(0, at), gcra.Options{Limit: o.Limit, Burst: o.Burst, Cost: cost}
	switch op {
	case algorithm.Step:
		return gcra.Step(s, now, g)
	case algorithm.Refund:
		return gcra.Refund(s, now, g)
	case algorithm.Charge:
		return gcra.Charge(s, now, g)
	}
	return s, gcra.Peek(s, now, g)
}
