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
