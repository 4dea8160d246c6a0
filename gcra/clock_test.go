package gcra_test

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/gcra"
)

// smallOptions are all options with counts to 3, periods to 4ns and bursts to 3.
func smallOptions() (all []gcra.Options) {
	for i := range int64(36) {
		all = append(all, gcra.Options{Limit: algo.Per(i%3+1, time.Duration(i/3%4+1)), Burst: i/12 + 1})
	}
	return all
}

// anyClock lets steps and charges happen at the instants 0 to 7, in any order, and
// visits each change of state.
func anyClock(o gcra.Options, depth int, s gcra.State, visit func(before, after gcra.State)) {
	for at := range int64(8) {
		for o.Cost = 1; o.Cost <= o.Burst; o.Cost++ {
			for _, verb := range []func(gcra.State, time.Time, gcra.Options) (gcra.State, algo.Result){gcra.Step, gcra.Charge} {
				next, _ := verb(s, time.Unix(0, at), o)
				if next == s {
					continue
				}
				visit(s, next)
				if depth > 1 {
					anyClock(o, depth-1, next, visit)
				}
			}
		}
	}
}

// What holds from each state to the next holds for all that come of it, however
// many steps and charges there are and whichever clocks they go by.
func TestADenialStaysADenialUnderEverySkew(t *testing.T) {
	for _, o := range smallOptions() {
		denials := 0
		anyClock(o, 3, gcra.State{}, func(before, after gcra.State) {
			for at := range int64(12) {
				was, is := gcra.Peek(before, time.Unix(0, at), o), gcra.Peek(after, time.Unix(0, at), o)
				if is.Remaining > was.Remaining {
					t.Fatalf("%+v: at %d %d units, %d once %+v has become %+v", o, at, was.Remaining, is.Remaining, before, after)
				}
				if was.Remaining < o.Burst {
					denials++
				}
			}
		})
		require.Positive(t, denials)
	}
}

func TestADenialStaysADenialUnderAnyLimitAndSkew(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	denials := 0
	for range rounds(5000) {
		o, now := anyOptions(random), upTo(random, algo.MaxInstant)
		type request struct{ at, cost int64 }
		var denied []request
		var s gcra.State
		for range 20 {
			o.Cost = anyCost(random, gcra.Peek(s, time.Unix(0, now), o))
			verb := gcra.Step
			if random.IntN(4) == 0 {
				verb = gcra.Charge
			}
			next, r := verb(s, time.Unix(0, now), o)
			s = next
			for _, d := range denied {
				o.Cost = d.cost
				require.False(t, gcra.Peek(s, time.Unix(0, d.at), o).Allowed, "%+v was denied, and is allowed by %+v", d, s)
			}
			if !r.Allowed {
				denied = append(denied, request{now, r.Cost})
			}
			now = anyTime(random, now, r, o)
		}
		denials += len(denied)
	}
	require.Greater(t, denials, rounds(5000))
}

// The bound holds of the instants that the requests were made at, whichever order
// they come in.
func TestTheBoundHoldsInAnyOrderOfReadings(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	reached := 0
	options := smallOptions()
	for range rounds(5000) {
		o := options[random.IntN(len(options))]
		var admitted [24]int64
		var s gcra.State
		for range 60 {
			at := random.Int64N(24)
			o.Cost = random.Int64N(o.Burst) + 1
			next, r := gcra.Step(s, time.Unix(0, at), o)
			s = next
			admitted[at] += r.Paid
		}
		for from := range admitted {
			var sum int64
			for to := from; to < len(admitted); to++ {
				sum += admitted[to]
				bound := gcra.Bound(o, time.Duration(to-from+1))
				if sum > bound {
					t.Fatalf("%+v: %d units from %d to %d of %v, and the bound is %d", o, sum, from, to, admitted, bound)
				}
				if sum == bound {
					reached++
				}
			}
		}
	}
	require.Positive(t, reached)
}

func TestBoundIsTheClosedForm(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for range rounds(20000) {
		o, x := anyOptions(random), upTo(random, algo.MaxInstant)
		burst := o.Burst
		if burst == 0 {
			burst = o.Limit.Count
		}
		want := floor(times(whole(o.Limit.Count), big.NewRat(x-1, int64(o.Limit.Period))))
		if want.Add(want, big.NewInt(burst)); want.IsInt64() {
			require.Equal(t, want.Int64(), gcra.Bound(o, time.Duration(x)), "%+v", o)
		} else {
			require.Equal(t, int64(algo.Never), gcra.Bound(o, time.Duration(x)), "%+v", o)
		}
		require.Equal(t, int64(0), gcra.Bound(o, time.Duration(1-x)))
	}
}
