// The tests promise that the package decides exactly as the model in model_test.go, for any state,
// time and options; that a changed limit or alignment keeps the units used; and that encoded
// states stay readable.
package fixedwindow_test

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

var kit = policytest.Kit[fixedwindow.State, fixedwindow.Options, fixedwindow.Policy]{
	Step: fixedwindow.Step, Peek: fixedwindow.Peek, Refund: fixedwindow.Refund, Charge: fixedwindow.Charge,
	New: fixedwindow.New, AppendState: fixedwindow.AppendState, ParseState: fixedwindow.ParseState,
}

var start = policytest.Start

// anyOptions returns small options, or any valid ones.
func anyOptions(random sample.Source) fixedwindow.Options {
	o := fixedwindow.Options{Limit: random.Limit(), Align: fixedwindow.Align(random.IntN(2))}
	if o.Align == fixedwindow.AlignClock {
		switch random.IntN(4) {
		case 0:
			o.Offset = time.Duration(random.Int64N(25)-12) * time.Microsecond
		case 1:
			o.Offset = time.Duration(random.UpTo(math.MaxInt64)).Truncate(time.Microsecond)
		case 2:
			o.Offset = -time.Duration(random.UpTo(math.MaxInt64)).Truncate(time.Microsecond)
		}
	}
	return o
}
