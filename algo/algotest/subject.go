package algotest

import (
	"fmt"
	"testing"

	"github.com/sluice-go/sluice/algo"
)

// Subject is an algorithm with one choice of options, over every limit.
type Subject struct {
	// Name says which algorithm and options these are. It is printed on failure.
	Name string

	// New is the policy for a limit: always the same algorithm and options. It is
	// required. An error means that the limit is outside of what the algorithm takes;
	// such a limit is passed over, but an algorithm that refuses nearly all of them
	// fails, and so does one that gives neither a policy nor an error.
	New func(algo.Limit) (algo.Policy, error)

	// Oracle answers for the same algorithm from the whole log of events, slowly
	// and by other means; see Bucket, IntervalBucket, WindowFromFirst,
	// WindowByClock and MovingWindow. Nil: law 13 does without.
	Oracle func(algo.Limit) Oracle

	// Recode decodes a state and encodes it again:
	//
	//	s, err := gcra.ParseState(state)
	//	return gcra.AppendState(nil, s), err
	//
	// No bytes give the encoding of State{}. Nil: laws 2 and 3 do without.
	Recode func(state []byte) ([]byte, error)

	// Windowed says that units come back at the edges of windows one period
	// long. A changed period then means other windows, and of keys that were used
	// before the last event law 14 holds the algorithm to a changed count only.
	Windowed bool

	// Composed says that the policy is made of others. Its results speak for one
	// part at a time, so the laws leave out what they say of a single account:
	// Available from one result to the next, the last instant before a lapse by
	// decisions alone, what comes back after a refund at a time that stepped back,
	// what a refund by a clock that is behind has Paid, a changed limit to the unit
	// on a key that was not fresh, and which limit it tells. For law 8 a refund then
	// gives back its cost.
	Composed bool

	// Allocates says that a step may allocate.
	Allocates bool

	effort effort
}

// Laws are all the laws by name, in their order.
var laws = []struct {
	name string
	hold func(testing.TB, Subject)
}{
	{"Deterministic", Deterministic},
	{"FreshIsZero", FreshIsZero},
	{"RoundTrip", RoundTrip},
	{"DenialIsInert", DenialIsInert},
	{"RetryIsExact", RetryIsExact},
	{"NextRefillIsExact", NextRefillIsExact},
	{"LapseIsExact", LapseIsExact},
	{"Bounded", Bounded},
	{"TimeMayStepBack", TimeMayStepBack},
	{"StaleDenialIsTrue", StaleDenialIsTrue},
	{"Indivisible", Indivisible},
	{"Monotone", Monotone},
	{"Accounts", Accounts},
	{"Reconfigured", Reconfigured},
	{"LimitIsTold", LimitIsTold},
	{"TimeStandsStill", TimeStandsStill},
	{"Concurrent", Concurrent},
	{"AdjustsAtStateTime", AdjustsAtStateTime},
	{"Frugal", Frugal},
}

// Run holds the subject to every law, each in a subtest of its own.
func Run(t *testing.T, s Subject) {
	t.Helper()
	if !s.ready(t) {
		return
	}
	for _, law := range laws {
		t.Run(law.name, func(t *testing.T) {
			t.Helper()
			law.hold(t, s)
		})
	}
}

// ready reports whether the subject has what it needs, and what not.
func (s Subject) ready(t testing.TB) bool {
	t.Helper()
	if s.New == nil {
		t.Errorf("algotest: a Subject needs New")
	}
	return s.New != nil
}

// strict is the subject with a New that refuses a limit for which it has nothing, and
// the error of the last such refusal.
func (s Subject) strict() (Subject, *error) {
	given, nothing := s.New, new(error)
	s.New = func(l algo.Limit) (algo.Policy, error) {
		p, err := given(l)
		if p == nil && err == nil {
			err = fmt.Errorf("New gives neither a policy nor an error for %v", l)
			*nothing = err
		}
		return p, err
	}
	return s, nothing
}
