// Package algotest tests the laws that every rate limiting algorithm must obey. It searches for histories that break a law: lists
// of operations (Step, Charge and Refund) with their times.
//
//	func TestLaws(t *testing.T) {
//		algotest.Run(t, algotest.Subject{
//			Name: "gcra burst=3",
//			New: func(l algo.Limit) (algo.Policy, error) {
//				return gcra.New(gcra.Options{Limit: l, Burst: 3})
//			},
//			Oracle: func(l algo.Limit) algotest.Oracle { return algotest.Bucket(l, 3) },
//		})
//	}
//
// # The laws
//
// A failure prints the exact text of its law.
//
//	 1 Deterministic       equal arguments give equal results, and are not modified
//	 2 NewKeyIsEmpty       empty bytes and an expired state decide alike
//	 3 StateEncoding       bytes that are not a state are refused
//	 4 DenialKeepsState    a denial and a refund of a full key return the same state
//	 5 RetryIsExact        at RetryAfter the cost is allowed, not earlier
//	 6 NextRefillIsExact   at NextRefill more units are left, not earlier
//	 7 ResetIsExact        at ResetAfter the key is like a new key, not earlier
//	 8 BoundHolds          any interval admits at most Bound units
//	 9 ClockMayStepBack    if the clock steps back, no more is admitted than if it had stopped
//	10 DenialStaysTrue     a cost denied at t is still denied at t after other steps
//	11 CostsAddUp          two costs at one instant equal their sum
//	12 LargerCostIsHarder  a larger cost is never easier to get
//	13 AccountsAddUp       Available + Refilled - Paid == Remaining
//	14 LimitMayChange      a new limit applies at once, and used units stay used
//	15 LimitIsReported     Limit returns the limit of the options
//	16 TimeIsClamped       times before 1970 and after 2112 decide like the nearest instant
//	17 Concurrent          concurrent calls return what one goroutine gets
//	18 AdjustsAtStateTime  if the clock is behind, a refund or charge uses the state's time
//	19 NoAllocations       a step does not allocate
//	20 CostIsPositive      a cost below 1 is refused
//
// If the denials of a policy change its state, as [algo.Policy] permits, leave law 4 out:
//
//	go test -skip /DenialKeepsState
//
// # The search
//
// One search goes from state to state under small limits: counts up to 6, and periods up to 12us, or up to 12 times
// [Subject.Tick]. A second one uses random limits and histories from the whole valid range. A failure shows the shortest history
// found, as a trace:
//
//	algotest: law 5, RetryIsExact, is broken by reference (seed 1):
//	    the same cost is denied until 1us before RetryAfter, and allowed at RetryAfter
//
//	    cost 2 is denied at @0s with RetryAfter 1µs, and still denied at @1µs
//
//	    policy reference 1/us
//	    #at key cost    verdict left retry reset
//	    @0s a   2    -> ok      0    0s    2µs
//	    # checked at @0s, state 7201...
//	    # step   @0s cost 2: deny, left 0, retry 1µs, next 1µs, reset 2µs
//	    # peek   @1µs cost 2: deny, left 1, retry 1µs, next 1µs, reset 1µs
//
// Every run makes the same searches. They take a few seconds for each subject, less with -short or the race detector, and more if
// the environment variable SLUICE_LONG_LAWS is not empty.
package algotest
