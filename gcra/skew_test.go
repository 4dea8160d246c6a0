package gcra_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

// smallOptions returns random options with a count up to 3, a period up to 4us and a burst up to 3.
func smallOptions(random sample.Source) gcra.Options {
	limit := algo.Per(random.Int64N(3)+1, time.Duration(random.Int64N(4)+1)*time.Microsecond)
	return gcra.Options{Limit: limit, Burst: random.Int64N(3) + 1}
}

// Calls are made in any order of times. No step and no charge gives units to any clock, and no interval gets more than Bound.
func TestClocksThatDisagreeGetNoUnits(t *testing.T) {
	const instants = 24
	random, reached := sample.New(7, 8), 0
	for range policytest.Rounds(5000) {
		o := smallOptions(random)
		var admitted [instants]int64
		var s gcra.State
		for range 60 {
			at, op := random.Int64N(instants), sample.OneOf(random, policy.Step, policy.Step, policy.Step, policy.Charge)
			next, r := suite.CallAt(s, op, at, o, random.Int64N(o.Burst)+1)
			for other := range int64(instants) {
				before, after := gcra.Peek(s, time.UnixMicro(other), o).Remaining, gcra.Peek(next, time.UnixMicro(other), o).Remaining
				if after > before {
					t.Fatalf("%+v: at %d %d units are left, but %d after %+v became %+v", o, other, before, after, s, next)
				}
			}
			if s = next; op == policy.Step {
				admitted[at] += r.Paid
			}
		}
		for from := range admitted {
			var sum int64
			for to := from; to < len(admitted); to++ {
				sum += admitted[to]
				bound := suite.BoundOf(o, policytest.Span(int64(to-from)))
				if sum > bound {
					t.Fatalf("%+v: %d units are admitted from %d to %d of %v, but the bound is %d", o, sum, from, to, admitted, bound)
				}
				if sum == bound {
					reached++
				}
			}
		}
	}
	require.Positive(t, reached)
}
