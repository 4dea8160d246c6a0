// Package compose makes policies out of policies.
//
// [All] stacks several limits into one policy that allows only what every one of
// them allows: 10 a second and 100 a minute on the same key. [ParsePolicy] reads
// a policy from one line of text, the spec that every String method writes:
//
//	gcra 100/m burst=20
//	tokenbucket 10/s burst=50 refill=interval
//	fixedwindow 5/h align=clock offset=15m
//	movingwindow 100/m slots=12 trailing=whole
//	all(gcra 10/s; gcra 100/m)
package compose
