package tokenbucket_test

import (
	"fmt"
	"testing"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/tokenbucket"
)

func TestLaws(t *testing.T) {
	oracles := map[tokenbucket.Refill]func(algo.Limit, int64) algotest.Oracle{
		tokenbucket.Continuous: algotest.Bucket,
		tokenbucket.Interval:   algotest.IntervalBucket,
	}
	for refill, oracle := range oracles {
		for _, burst := range []int64{0, 1, 3, 8} {
			name := fmt.Sprintf("tokenbucket burst=%d refill=%v", burst, refill)
			t.Run(name, func(t *testing.T) {
				algotest.Run(t, algotest.Subject{
					Name: name,
					New: func(l algo.Limit) (algo.Policy, error) {
						return tokenbucket.New(tokenbucket.Options{Limit: l, Burst: burst, Refill: refill})
					},
					Oracle: func(l algo.Limit) algotest.Oracle {
						if burst == 0 {
							return oracle(l, l.Count)
						}
						return oracle(l, burst)
					},
					Recode: func(state []byte) ([]byte, error) {
						s, err := tokenbucket.ParseState(state)
						return tokenbucket.AppendState(nil, s), err
					},
				})
			})
		}
	}
}
