// The tests promise that the package decides exactly as the model in model_test.go, for any state,
// time and options; that Bound holds and is reached; that a changed limit keeps the units used;
// and that encoded states stay readable.
package movingwindow_test

import (
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/movingwindow"
)

var kit = policytest.Kit[movingwindow.State, movingwindow.Options, movingwindow.Policy]{
	Step: movingwindow.Step, Peek: movingwindow.Peek, Refund: movingwindow.Refund, Charge: movingwindow.Charge,
	New: movingwindow.New, AppendState: movingwindow.AppendState, ParseState: movingwindow.ParseState,
}

var start = policytest.Start

// anyOptions returns small options, or any valid ones.
func anyOptions(random sample.Source) movingwindow.Options {
	slots := sample.OneOf(random, 0, 1, 2, 6, 12, 16, 17, 60, random.IntN(6), int(random.UpTo(movingwindow.MaxSlots)))
	return movingwindow.Options{Limit: random.Limit(), Slots: slots, Trailing: movingwindow.Trailing(random.IntN(2))}
}

func peek(s movingwindow.State, at int64, o movingwindow.Options) algo.Result {
	return movingwindow.Peek(s, time.UnixMicro(at), o)
}
