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

// smallOptions returns all options with counts up to 3, periods up to 4us and bursts up to 3.
func smallOptions() (all []gcra.Options) {
	for i := range int64(36) {
		all = append(all, gcra.Options{Limit: algo.Per(i%3+1, time.Duration(i/3%4+1)*time.Microsecond), Burst: i/12 + 1})
	}
	return all
}

// stepsInAnyOrder makes steps and charges at the instants 0 to 7, in any order, and calls visit
// with each change of the state.
func stepsInAnyOrder(o gcra.Options, depth int, s gcra.State, visit func(before, after gcra.State)) {
	for i := range int64(16) * o.Burst {
		next, _ := suite.CallAt(s, []policy.Op{policy.Step, policy.Charge}[i%2], i/2%8, o, i/16+1)
		if next == s {
			continue
		}
		visit(s, next)
		if depth > 1 {
			stepsInAnyOrder(o, depth-1, next, visit)
		}
	}
}

// If no single change gives units to any clock, no sequence of changes does.
func TestNoStepGivesUnitsToAnotherClock(t *testing.T) {
	steps := 3
	if sample.Brief() {
		steps = 2
	}
	for _, o := range smallOptions() {
		denials := 0
		stepsInAnyOrder(o, steps, gcra.State{}, func(before, after gcra.State) {
			for at := range int64(12) {
				old, now := gcra.Peek(before, time.UnixMicro(at), o), gcra.Peek(after, time.UnixMicro(at), o)
				if now.Remaining > old.Remaining {
					t.Fatalf("%+v: at %d %d units are left, but %d after %+v became %+v", o, at, old.Remaining, now.Remaining, before, after)
				}
				if old.Remaining < o.Burst {
					denials++
				}
			}
		})
		require.Positive(t, denials)
	}
}

func TestBoundHoldsInAnyOrderOfTimes(t *testing.T) {
	random, options, reached := sample.New(7, 8), smallOptions(), 0
	for range policytest.Rounds(5000) {
		o := sample.OneOf(random, options...)
		var admitted [24]int64
		var s gcra.State
		for range 60 {
			at := random.Int64N(24)
			next, r := suite.CallAt(s, policy.Step, at, o, random.Int64N(o.Burst)+1)
			s = next
			admitted[at] += r.Paid
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
