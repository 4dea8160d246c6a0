// Package algotest tests rate limiting algorithms. It has laws that every algorithm must obey,
// because the rest of sluice depends on them. It searches for histories that break a law. A history
// is a list of operations (Step, Charge and Refund) with their times.
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
// This list is a summary. A failure prints the exact text of the law.
//
//	 1 Deterministic       the same arguments give the same result, and are not modified
//	 2 NewKeyIsEmpty       empty bytes and an expired state decide alike
//	 3 StateEncoding       bytes that are not a state are refused; the key is not reset
//	 4 DenialKeepsState    a denial returns the same state
//	 5 RetryIsExact        at RetryAfter the cost is allowed, and 1µs earlier it is not
//	 6 NextRefillIsExact   at NextRefill more units are left, and 1µs earlier not
//	 7 ResetIsExact        at ResetAfter the key is like a new key, and 1µs earlier it is not
//	 8 BoundHolds          in any interval at most Bound units are admitted
//	 9 ClockMayStepBack    if the clock steps back, no more is admitted than if it had stopped instead
//	10 DenialStaysTrue     a cost that is denied at t is still denied at t after other steps
//	11 CostsAddUp          two costs at one instant equal their sum
//	12 LargerCostIsHarder  a larger cost is never easier to get
//	13 AccountsAddUp       Available + Refilled - Paid == Remaining
//	14 LimitMayChange      a new limit applies at once, and used units stay used
//	15 LimitIsReported     Limit returns the limit of the options
//	16 TimeIsClamped       times before 1970 and after 2116 decide like the nearest instant
//	17 Concurrent          concurrent calls return what one goroutine gets
//	18 AdjustsAtStateTime  if the clock is behind the state, a refund or charge uses the state's time
//	19 NoAllocations       a step does not allocate
//	20 CostIsPositive      a cost below 1 is refused
//
// # The search
//
// Two searches test each law. The first uses small limits (counts up to 6, periods up to 12us): it
// goes from state to state and tries every nanosecond. For the smallest limits it tries most
// states, and for the others a sample. The second uses random limits and histories from the whole
// valid range. A third search is for law 8 only. It computes the most units that any caller can get
// under the small limits.
//
// If a law is broken, the failure shows the shortest history found, as a trace:
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
// The searches are the same in every run, and take a few seconds for each subject. They are
// shorter with the flag -short and under the race detector, and longer if the environment
// variable SLUICE_LONG_LAWS is not empty.
package algotest
