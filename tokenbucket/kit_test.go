// The tests promise that the package decides exactly as the model in model_test.go, and with
// continuous refill as gcra while clocks agree; that a changed limit keeps the tokens used and
// the time that has accrued; and that encoded states stay readable.
package tokenbucket_test

import (
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/tokenbucket"
)

var kit = policytest.Kit[tokenbucket.State, tokenbucket.Options, tokenbucket.Policy]{
	Step: tokenbucket.Step, Peek: tokenbucket.Peek, Refund: tokenbucket.Refund, Charge: tokenbucket.Charge,
	New: tokenbucket.New, AppendState: tokenbucket.AppendState, ParseState: tokenbucket.ParseState,
}

var start = policytest.Start

// anyOptions returns small options, or any valid ones.
func anyOptions(random sample.Source) tokenbucket.Options {
	for {
		limit := random.Limit()
		burst := sample.OneOf(random, random.Int64N(9), random.UpTo(limit.Count), random.UpTo(algo.MaxCount))
		o := tokenbucket.Options{Limit: limit, Burst: burst, Refill: tokenbucket.Refill(random.IntN(2))}
		if o.Validate() == nil {
			return o
		}
	}
}
