package gcra_test

import (
	"fmt"
	"testing"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/gcra"
)

// Burst 0 is the limit's count, so the burst changes with the limit.
func TestLaws(t *testing.T) {
	for _, burst := range []int64{0, 1, 5, 1 << 20} {
		name := fmt.Sprintf("gcra burst=%d", burst)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			algotest.Run(t, algotest.Subject{
				Name:   name,
				New:    kit.NewWithLimit(gcra.Options{Burst: burst}),
				Oracle: func(l algo.Limit) algotest.Oracle { return bucket(l, burst) },
				Recode: kit.Recode,
			})
		})
	}
}

func bucket(l algo.Limit, burst int64) algotest.Oracle {
	if burst == 0 {
		burst = l.Count
	}
	return algotest.Bucket(l, burst)
}
