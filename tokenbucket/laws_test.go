package tokenbucket_test

import (
	"fmt"
	"testing"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/tokenbucket"
)

func TestLaws(t *testing.T) {
	for _, o := range []tokenbucket.Options{
		{Refill: tokenbucket.Continuous},
		{Refill: tokenbucket.Continuous, Burst: 3},
		{Refill: tokenbucket.Interval},
		{Refill: tokenbucket.Interval, Burst: 3},
		{Refill: tokenbucket.Continuous, Burst: 1 << 40},
		{Refill: tokenbucket.Interval, Burst: 1 << 40},
	} {
		name := fmt.Sprintf("tokenbucket burst=%d refill=%v", o.Burst, o.Refill)
		t.Run(name, func(t *testing.T) {
			algotest.Run(t, subject(name, o))
		})
	}
}

// subject returns the subject for these options, which have no limit.
func subject(name string, o tokenbucket.Options) algotest.Subject {
	oracle := algotest.Bucket
	if o.Refill == tokenbucket.Interval {
		oracle = algotest.IntervalBucket
	}
	return algotest.Subject{
		Name: name,
		New:  kit.NewWithLimit(o),
		Oracle: func(l algo.Limit) algotest.Oracle {
			if o.Burst == 0 {
				return oracle(l, l.Count)
			}
			return oracle(l, o.Burst)
		},
		Recode: kit.Recode,
	}
}
