package algotest

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

// Each flaw breaks one law.
var (
	flaws flawList // in the order of their laws

	dropsDst             = flaws.add("Deterministic", "a step overwrites the bytes in dst")
	deniesInOtherZones   = flaws.add("Deterministic", "a step in another time zone is denied")
	writesBehindState    = flaws.add("Deterministic", "a step writes into the spare capacity of the state")
	returnsItsArgument   = flaws.add("Deterministic", "a denial returns the slice of the argument")
	refusesEmptySlices   = flaws.add("NewKeyIsEmpty", "an empty slice is refused, but nil is not")
	acceptsTrailingBytes = flaws.add("StateEncoding", "trailing bytes are accepted")
	confusesVersions     = flaws.add("StateEncoding", "a newer format gives ErrState")
	resetsUnknownStates  = flaws.add("StateEncoding", "another algorithm's state is a new key")
	acceptsCapitalTag    = flaws.add("StateEncoding", "the tag may be a capital letter")
	acceptsVersion0      = flaws.add("StateEncoding", "format 0 is accepted as format 1")
	acceptsSomeVersions  = flaws.add("StateEncoding", "formats 5, 9, 13 and so on are accepted as format 1")
	resetsTokenBuckets   = flaws.add("StateEncoding", "a state of the token bucket is a new key")
	panicsOnBadRange     = flaws.add("StateEncoding", "a number out of range is a panic")
	storesDenials        = flaws.add("DenialKeepsState", "a denial changes the state")
	storesFullRefunds    = flaws.add("DenialKeepsState", "a refund of a full key changes the state")
	roundsRetry          = flaws.add("RetryIsExact", "RetryAfter is rounded up to 2us")
	retriesEarly         = flaws.add("RetryIsExact", "RetryAfter is 1us too short")
	refillsWhenFull      = flaws.add("NextRefillIsExact", "NextRefill is the time until the key is full")
	peeksWithoutRefill   = flaws.add("NextRefillIsExact", "NextRefill of an allowed peek is 0")
	resetsLate           = flaws.add("ResetIsExact", "ResetAfter is 1us too long")
	resetsEarly          = flaws.add("ResetIsExact", "ResetAfter is 1us too short")
	peeksLateReset       = flaws.add("ResetIsExact", "ResetAfter of an allowed peek is 1us too long")
	boundOneShort        = flaws.add("BoundHolds", "Bound is one unit too low")
	boundWithoutBatches  = flaws.add("BoundHolds", "Bound ignores that units come back in batches")
	boundShortLater      = flaws.add("BoundHolds", "Bound lacks one refill from the 20th refill on")
	boundEndsEarly       = flaws.add("BoundHolds", "Bound is 0 for more than 100 refills")
	boundShortOnce       = flaws.add("BoundHolds", "Bound is two units too low for intervals of 18us under 1/8us")
	refundsSpeedUp       = flaws.add("BoundHolds", "a refund after the last payment makes the next refill due in 1us")
	movesTimeBack        = flaws.add("ClockMayStepBack", "an event in the past moves the state's time back")
	hasNoSkew            = flaws.add("ClockMayStepBack", "Skew is always 0")
	adjustsWithoutSkew   = flaws.add("ClockMayStepBack", "Skew of a refund and a charge is 0")
	payingSpeedsUp       = flaws.add("DenialStaysTrue", "units come back faster if more are used")
	largeCostsDelay      = flaws.add("CostsAddUp", "a cost of 3 or more delays the next refill by 1us")
	hugeCostsOverflow    = flaws.add("LargerCostIsHarder", "a cost above 2^62 overflows and is allowed")
	hasNoAvailable       = flaws.add("AccountsAddUp", "Available is added to Refilled")
	refundsAboveFull     = flaws.add("AccountsAddUp", "a refund leaves more units than the capacity")
	adjustsAsDenied      = flaws.add("AccountsAddUp", "Allowed of a refund and a charge is false")
	reportsAPart         = flaws.add("AccountsAddUp", "Part is 1 without parts")
	refillsTwice         = flaws.add("AccountsAddUp", "units come back at twice the rate")
	storesUnitsLeft      = flaws.add("LimitMayChange", "the state has the units left, not the units used")
	resetsChangedLimit   = flaws.add("LimitMayChange", "a changed limit resets the key")
	keepsOldRate         = flaws.add("LimitMayChange", "units come back at the rate of the limit under which they were paid")
	keepsSecondRate      = flaws.add("LimitMayChange", "the same, except for the first payment of a key")
	reportsOtherLimit    = flaws.add("LimitIsReported", "Limit returns another limit")
	usesUnixMicro        = flaws.add("TimeIsClamped", "the time is now.UnixMicro()")
	roundsTimeUp         = flaws.add("TimeIsClamped", "the time is rounded up to microseconds")
	panicsBefore1970     = flaws.add("TimeIsClamped", "a time before 1970 is a panic")
	resetsAfter2112      = flaws.add("TimeIsClamped", "after 2112 every key is new")
	losesLateRefunds     = flaws.add("AdjustsAtStateTime", "a refund that would fill the key is lost if the clock is behind")
	chargesDefaultCost   = flaws.add("CostIsPositive", "a step of cost 0 is one of cost 1")
	refundsNegativeCosts = flaws.add("CostIsPositive", "a refund of a negative cost is one of cost 1")
)

func TestEachFlawBreaksOneLaw(t *testing.T) {
	t.Parallel()
	for i, f := range flaws {
		first := i == 0 || flaws[i-1].law != f.law
		if sample.Brief() && !first {
			continue // one flaw for each law
		}
		t.Run(f.text, func(t *testing.T) {
			t.Parallel()
			tested := laws
			// To test every law is slow. scripts/test.sh also runs this test without the race detector.
			if sample.RaceEnabled || !first && !sample.Long() {
				tested = slices.DeleteFunc(slices.Clone(laws), func(l law) bool { return l.name != f.law })
			}
			failed := brokenLaws(subject(f), tested)
			for law, text := range failed {
				if law != f.law {
					t.Errorf("it also breaks %s:\n%s", law, text)
				}
			}
			require.Contains(t, failed, f.law)
			t.Log(failed[f.law])

			// The laws are weaker for a composed policy: they do not know the units of each
			// part, it may set Part, and Limit is that of its first part.
			composed := subject(f)
			composed.Composed = true
			found := !slices.Contains([]*flaw{keepsSecondRate, reportsAPart, reportsOtherLimit}, f)
			require.Equal(t, found, len(testLaw(&recorder{}, f.law, composed).errors) > 0, "as a composed policy")
		})
	}
}

func TestReferenceObeysEveryLaw(t *testing.T) {
	s := subject(noFlaw)
	s.effort = effort{}
	Run(t, s)
}

func subject(f *flaw) Subject {
	s := Subject{
		Name:      "reference",
		New:       newReference(f),
		Windowed:  true,
		Allocates: f != noFlaw, // no flaw is about that, and measuring is slow
		Recode: func(state []byte) ([]byte, error) {
			s, err := reference{flaw: f}.decode(state)
			return reference{flaw: f}.encode(nil, s), err
		},
		Oracle: func(l algo.Limit) Oracle { return IntervalBucket(l, 2*l.Count) },
		effort: effort{limits: 7, layer: 8, tries: 12, depth: 4, checks: 150, random: 4_000, bound: 2_000},
	}
	if f == boundShortOnce {
		s.effort.bound = 20_000
	}
	if f == payingSpeedsUp || f == largeCostsDelay { // no bucket does that
		s.Oracle = nil
	}
	return s
}

// brokenLaws returns the errors of each of the laws that the subject breaks.
func brokenLaws(s Subject, laws []law) map[string]string {
	if sample.RaceEnabled && s.effort == (effort{}) {
		s.effort = brief // the searches for races are too short for some flaws
	}
	broken := map[string]string{}
	for _, law := range laws {
		if r := testLaw(&recorder{}, law.name, s); len(r.errors) > 0 {
			broken[law.name] = fmt.Sprint(r.errors)
		}
	}
	return broken
}

func testLaw(r *recorder, name string, s Subject) *recorder {
	i := slices.IndexFunc(laws, func(l law) bool { return l.name == name })
	laws[i].test(r, s, i+1)
	return r
}

// A recorder is a testing.TB that records errors.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestSubjectThatRefusesAllLimitsFails(t *testing.T) {
	t.Parallel()
	s := subject(noFlaw)
	s.New = func(algo.Limit) (algo.Policy, error) { return nil, errors.New("not today") }
	require.Len(t, brokenLaws(s, laws), len(laws))
}

func TestSubjectWithoutPoliciesFails(t *testing.T) {
	t.Parallel()
	none := subject(noFlaw)
	none.New = func(algo.Limit) (algo.Policy, error) { return nil, nil }
	failed := brokenLaws(none, laws)
	require.Len(t, failed, len(laws))
	for _, text := range failed {
		require.Contains(t, text, "New returned neither a policy nor an error for ")
	}

	some := subject(noFlaw)
	some.New = func(l algo.Limit) (algo.Policy, error) { // one of 72 small limits has no policy
		if l == algo.Per(1, time.Microsecond) {
			return nil, nil
		}
		return newReference(noFlaw)(l)
	}
	require.Len(t, brokenLaws(some, laws), len(laws))

	failed = brokenLaws(Subject{Name: "empty"}, laws)
	require.Len(t, failed, len(laws))
	for _, text := range failed {
		require.Equal(t, "[algotest: Subject.New is nil; it is required]", text)
	}
}

// An algorithm may refuse short periods. The search under small limits then finds the same flaws.
func TestSmallLimitsHaveTheTickOfTheSubject(t *testing.T) {
	t.Parallel()
	for flaw, law := range map[*flaw]string{noFlaw: "", boundOneShort: "BoundHolds", boundWithoutBatches: "BoundHolds", resetsLate: "ResetIsExact", movesTimeBack: "ClockMayStepBack"} {
		s := subject(flaw)
		s.Tick = time.Millisecond
		s.New = func(l algo.Limit) (algo.Policy, error) {
			if l.Period < time.Millisecond {
				return nil, errors.New("the period must be at least 1ms")
			}
			return newReference(flaw)(l)
		}
		s.effort.random = 0
		failed := brokenLaws(s, laws)
		if law == "" {
			require.Empty(t, failed)
		} else {
			require.Contains(t, failed, law)
		}
		s.Tick = 0
		require.Len(t, brokenLaws(s, laws), len(laws))
	}
}

// It is not parallel, because it yields to the other goroutines at every step.
func TestSharedMemoryIsFound(t *testing.T) {
	s := subject(noFlaw)
	s.New = func(l algo.Limit) (algo.Policy, error) {
		p, err := newReference(noFlaw)(l)
		return sharesCost{p, new(atomic.Int64)}, err
	}
	failed := brokenLaws(s, laws)
	require.Len(t, failed, 1)
	require.Contains(t, failed["Concurrent"], "with one goroutine a step of ")
}

// sharesCost keeps the cost of a call in memory that concurrent calls share.
type sharesCost struct {
	algo.Policy
	cost *atomic.Int64
}

func (f sharesCost) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	f.cost.Store(cost)
	runtime.Gosched()
	return f.Policy.Step(dst, state, now, f.cost.Load())
}

func TestAllocatingStepIsFound(t *testing.T) {
	t.Parallel()
	s := subject(noFlaw)
	s.New = func(l algo.Limit) (algo.Policy, error) {
		p, err := newReference(noFlaw)(l)
		return allocatesDenials{p}, err
	}
	require.Equal(t, sample.RaceEnabled, len(testLaw(&recorder{}, "NoAllocations", s).errors) == 0)
	s.Allocates = true
	require.Empty(t, testLaw(&recorder{}, "NoAllocations", s).errors)
}

type allocatesDenials struct{ algo.Policy }

func (a allocatesDenials) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	next, r, err := a.Policy.Step(dst, state, now, cost)
	if !r.Allowed {
		next = append(make([]byte, 0, len(next)+1<<10), next...)
	}
	return next, r, err
}
