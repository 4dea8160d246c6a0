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
// Each law is a function of its own. It searches twice: small limits (counts to
// 6, periods to 12ns) from state to state at every nanosecond, and random ones
// over the whole valid range. A law that does not hold is reported once, as its
// sentence and the shortest history found, in the form of a trace:
//
//	algotest: law 5, RetryIsExact, does not hold for gcra burst=3:
//	    at RetryAfter-1ns the same cost is still denied, at RetryAfter it is allowed
//
//	    cost 3 is denied at @1ns with RetryAfter 5ns, and denied still at @6ns
//
//	    policy gcra 2/4ns burst=3
//	    #at   key cost    verdict left retry reset
//	    @0s   a   3    -> ok      0    0s    6ns
//
// Searches are the same in every run. Under testing.Short and the race detector
// they are shorter.
package algotest
