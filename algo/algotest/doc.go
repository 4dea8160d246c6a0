// Package algotest holds the laws that every rate limiting algorithm obeys, and
// a judge that tries to break them. An algorithm passes its states through
// stores, clocks and changed configurations that it knows nothing about; the
// laws are what the rest of sluice relies on when it does so.
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
// In short; the sentence that each is held to is printed where it fails.
//
//	 1 Deterministic      same arguments, same answer, arguments not modified
//	 2 FreshIsZero        nil bytes, State{} and a lapsed state decide alike
//	 3 RoundTrip          what is not a state is refused, and never silently reset
//	 4 DenialIsInert      a denied step and a peek return the very same state
//	 5 RetryIsExact       at RetryAfter the cost is allowed, and not 1ns earlier
//	 6 NextRefillIsExact  at NextRefill there is more, and not 1ns earlier
//	 7 LapseIsExact       at ResetAfter the key is as never seen, and not 1ns earlier
//	 8 Bounded            what is admitted in any interval is within Bound
//	 9 TimeMayStepBack    a clock that steps back admits no more than one that stands
//	10 StaleDenialIsTrue  what is denied stays denied, whatever happened before
//	11 Indivisible        two costs at one instant are their sum
//	12 Monotone           a larger cost is never easier
//	13 Accounts           what was there, came back and was paid adds up
//	14 Reconfigured       another limit holds at once, and what was used stays used
//	15 LimitIsTold        a policy tells the limit that it was made for
//	16 TimeStandsStill    before 1970 and after 2116 no time passes
//	17 Concurrent         many goroutines are answered as one is
//	18 AdjustsAtStateTime a refund by a clock that is behind gives back as much
//
// and Frugal, which has no number: a step does not allocate.
//
// # The search
//
// Each law is a function of its own. It searches twice: under small limits
// (counts to 6, periods to 12ns) from state to state, nanosecond by nanosecond,
// most of them for the smallest and a sample for the others; and under random
// limits and histories from the whole valid range. The worst case of law 8 is
// played out by the adversaries of the small limits. A law that does not hold is
// reported once, as its sentence and the shortest history found, in the form of a
// trace:
//
//	algotest: law 5, RetryIsExact, does not hold for reference (seed 1):
//	    at RetryAfter-1ns the same cost is still denied, at RetryAfter it is allowed
//
//	    cost 2 is denied at @0s with RetryAfter 1ns, and denied still at @1ns
//
//	    policy reference 1/ns
//	    #at key cost    verdict left retry reset
//	    @0s a   2    -> ok      0    0s    2ns
//	    # judged at @0s, state 7201...
//	    # step   @0s cost 2: deny, left 0, retry 1ns, next 1ns, reset 2ns
//	    # peek   @1ns cost 2: deny, left 1, retry 1ns, next 1ns, reset 1ns
//
// Searches are the same in every run, and take a few seconds for a subject. Where
// [Brief] says so they are shorter.
package algotest
