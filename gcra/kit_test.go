// The tests promise that the package decides exactly as the model in model_test.go, for any state,
// time and options; that clocks which disagree never get more than Bound, nor turn a denial
// into an admission; and that encoded states stay readable.
package gcra_test

import (
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

var kit = policytest.Kit[gcra.State, gcra.Options, gcra.Policy]{
	Step: gcra.Step, Peek: gcra.Peek, Refund: gcra.Refund, Charge: gcra.Charge,
	New: gcra.New, AppendState: gcra.AppendState, ParseState: gcra.ParseState,
}

var start = policytest.Start

// anyOptions returns small options, or any valid ones.
func anyOptions(random sample.Source) gcra.Options {
	for {
		limit := random.Limit()
		burst := sample.OneOf(random, random.Int64N(9), random.UpTo(limit.Count), random.UpTo(algo.MaxCount))
		if o := (gcra.Options{Limit: limit, Burst: burst}); o.Validate() == nil {
			return o
		}
	}
}
