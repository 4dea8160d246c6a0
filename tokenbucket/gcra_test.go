package tokenbucket_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/tokenbucket"
	"github.com/stretchr/testify/require"
)

// While time does not step back, a bucket whose tokens come one by one is gcra
// in other words, down to every field of every result.
func TestTokensOneByOneAreGCRA(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range rounds(5000) {
		o := anyOptions(random)
		o.Refill = tokenbucket.Continuous
		var bucket tokenbucket.State
		var cells gcra.State
		run(t, random, o, true, func(v verb, at, cost int64) (r algo.Result) {
			var want algo.Result
			cells, want = callGCRA(cells, v, at, o, cost)
			bucket, r = call(bucket, v, at, o, cost)
			require.Equal(t, want, r, "%v: verb %d at %d, cost %d", o, v, at, cost)
			return r
		})
	}
}

func callGCRA(s gcra.State, v verb, at int64, o tokenbucket.Options, cost int64) (gcra.State, algo.Result) {
	now, g := time.Unix(0, at), gcra.Options{Limit: o.Limit, Burst: o.Burst, Cost: cost}
	switch v {
	case step:
		return gcra.Step(s, now, g)
	case refund:
		return gcra.Refund(s, now, g)
	case charge:
		return gcra.Charge(s, now, g)
	}
	return s, gcra.Peek(s, now, g)
}
