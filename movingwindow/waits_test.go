package movingwindow_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithmtest"
	"github.com/sluice-go/sluice/movingwindow"
)

// This test finds each wait by trying one instant after the other.
func TestWaitsAreExact(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 6))
	for range algorithmtest.Rounds(4000) {
		o := movingwindow.Options{
			Limit:    algo.Per(random.Int64N(6)+1, time.Duration(random.Int64N(12)+1)),
			Slots:    random.IntN(5),
			Trailing: movingwindow.Trailing(random.IntN(2)),
		}
		s, _ := used(random, o)
		now := s.At + random.Int64N(2*int64(o.Limit.Period)) - 3
		for o.Cost = range o.Limit.Count + 1 {
			r := peek(s, now, o)
			first := func(found func(algo.Result) bool) time.Duration {
				for at := now; ; at++ {
					if found(peek(s, at, o)) {
						return time.Duration(at - now)
					}
				}
			}
			require.Equal(t, first(func(r algo.Result) bool { return r.Allowed }), r.RetryAfter)
			if r.Remaining == r.Limit {
				require.Zero(t, r.NextRefill+r.ResetAfter)
				continue
			}
			require.Equal(t, first(func(at algo.Result) bool { return at.Remaining > r.Remaining }), r.NextRefill)
			require.Equal(t, first(func(r algo.Result) bool { return r.Fresh }), r.ResetAfter)
		}
	}
}
