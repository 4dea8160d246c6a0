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
)

// The flaws of the saboteurs.
const (
	forgetsDst          flaw = "the next state does not come after what dst holds"
	zoneMatters         flaw = "the same instant in another time zone is denied"
	writesBehindState   flaw = "a step uses the spare capacity of the state that it is given"
	sharesState         flaw = "a denial returns the slice that it was given"
	emptyIsNoState      flaw = "an empty slice is not a nil one"
	takesTrailingBytes  flaw = "what follows the state is not looked at"
	knowsNoVersions     flaw = "a newer format is any damaged state"
	resetsSilently      flaw = "another algorithm's state is a key never seen"
	takesAnyCase        flaw = "the first byte may be a capital letter"
	knowsNoZero         flaw = "format 0 is taken for 1"
	takesOddVersions    flaw = "formats 5, 9, 13 and so on are taken for 1"
	forgetsOthers       flaw = "a state of the token bucket is a key never seen"
	panicsOnGarbage     flaw = "ranges are not checked"
	countsDenials       flaw = "a denial is counted in the state"
	retryIsRounded      flaw = "RetryAfter is rounded up to 2ns"
	retryIsEarly        flaw = "RetryAfter is 1ns early"
	nextRefillIsFull    flaw = "NextRefill is when everything is back"
	lapsesLate          flaw = "ResetAfter is 1ns late"
	lapsesEarly         flaw = "ResetAfter is 1ns early"
	peeksWithoutRefill  flaw = "a peek of a cost that is there tells no NextRefill"
	peeksALateLapse     flaw = "a peek of a cost that is there has ResetAfter 1ns late"
	boundOneShort       flaw = "one unit more is admitted than Bound says"
	boundOfEvenFlow     flaw = "Bound forgets that units come back all at once"
	boundShortLater     flaw = "from the 20th refill on Bound is one refill short"
	boundEndsEarly      flaw = "Bound of more than 100 refills is 0"
	refundsHasten       flaw = "a refund after the last payment makes the next refill due in 1ns"
	timeRegresses       flaw = "an event in the past moves the state's time back"
	neverAhead          flaw = "Skew is always 0"
	hidesSkew           flaw = "Skew of a refund and of a charge is 0"
	payingHastens       flaw = "the more is used the faster it comes back"
	largeCostsDelay     flaw = "a cost of 3 or more delays the next refill by 1ns"
	hugeCostsWrap       flaw = "a cost above 2^62 wraps and is allowed"
	nothingWasAvailable flaw = "all that is there counts as Refilled"
	refundOverflows     flaw = "a refund lifts the units above full"
	adjustsAsDenied     flaw = "a refund and a charge are not Allowed"
	boundByAPart        flaw = "what is no stack says that its second part bound"
	refundsNothing      flaw = "a refund of cost 0 gives nothing back"
	refillsTwice        flaw = "units come back at twice the rate"
	keepsWhatIsLeft     flaw = "the state keeps what is left, not what was used"
	forgetsWhenChanged  flaw = "a changed limit makes the key fresh"
	keepsItsRate        flaw = "units come back at the rate of the limit that they were paid under"
	keepsItsSecondRate  flaw = "the same, but for the first payment of a key"
	namesAnotherLimit   flaw = "Limit is not the one it was made for"
	readsNanoseconds    flaw = "the time is now.UnixNano()"
	panicsBefore1970    flaw = "a time before 1970 is a panic"
	freeAfter2116       flaw = "after 2116 every key is fresh"
	losesLateRefunds    flaw = "a refund that would fill the key is lost if the clock is behind"
)

func TestSaboteursFailTheirLawAndNoOther(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flaw flaw
		law  string
	}{
		{forgetsDst, "Deterministic"},
		{zoneMatters, "Deterministic"},
		{writesBehindState, "Deterministic"},
		{sharesState, "Deterministic"},
		{emptyIsNoState, "FreshIsZero"},
		{takesTrailingBytes, "RoundTrip"},
		{knowsNoVersions, "RoundTrip"},
		{resetsSilently, "RoundTrip"},
		{takesAnyCase, "RoundTrip"},
		{knowsNoZero, "RoundTrip"},
		{takesOddVersions, "RoundTrip"},
		{forgetsOthers, "RoundTrip"},
		{panicsOnGarbage, "RoundTrip"},
		{countsDenials, "DenialIsInert"},
		{retryIsRounded, "RetryIsExact"},
		{retryIsEarly, "RetryIsExact"},
		{nextRefillIsFull, "NextRefillIsExact"},
		{peeksWithoutRefill, "NextRefillIsExact"},
		{lapsesLate, "LapseIsExact"},
		{lapsesEarly, "LapseIsExact"},
		{peeksALateLapse, "LapseIsExact"},
		{boundOneShort, "Bounded"},
		{boundOfEvenFlow, "Bounded"},
		{boundShortLater, "Bounded"},
		{boundEndsEarly, "Bounded"},
		{refundsHasten, "Bounded"},
		{timeRegresses, "TimeMayStepBack"},
		{neverAhead, "TimeMayStepBack"},
		{hidesSkew, "TimeMayStepBack"},
		{payingHastens, "StaleDenialIsTrue"},
		{largeCostsDelay, "Indivisible"},
		{hugeCostsWrap, "Monotone"},
		{nothingWasAvailable, "Accounts"},
		{refundOverflows, "Accounts"},
		{adjustsAsDenied, "Accounts"},
		{boundByAPart, "Accounts"},
		{refundsNothing, "Accounts"},
		{refillsTwice, "Accounts"},
		{keepsWhatIsLeft, "Reconfigured"},
		{forgetsWhenChanged, "Reconfigured"},
		{keepsItsRate, "Reconfigured"},
		{keepsItsSecondRate, "Reconfigured"},
		{namesAnotherLimit, "LimitIsTold"},
		{readsNanoseconds, "TimeStandsStill"},
		{panicsBefore1970, "TimeStandsStill"},
		{freeAfter2116, "TimeStandsStill"},
		{losesLateRefunds, "AdjustsAtStateTime"},
	} {
		t.Run(string(c.flaw), func(t *testing.T) {
			t.Parallel()
			failed := failures(subject(c.flaw))
			for law, text := range failed {
				if law != c.law {
					t.Errorf("fails %s too:\n%s", law, text)
				}
			}
			require.Contains(t, failed, c.law)
			t.Log(failed[c.law])

			// Of a stack what it has left is known, and not what each of its parts has, unless
			// all were fresh; it has parts to bind, and tells the limit of the first.
			composed := subject(c.flaw)
			composed.Composed = true
			known := !slices.Contains([]flaw{keepsItsSecondRate, boundByAPart, namesAnotherLimit}, c.flaw)
			require.Equal(t, known, fails(composed, c.law), "as if it were composed")
		})
	}
}

func TestTheReferenceObeysEveryLaw(t *testing.T) {
	s := subject(honest)
	s.effort = effort{}
	Run(t, s)
}

func subject(f flaw) Subject {
	s := Subject{
		Name:      "reference",
		New:       newReference(f),
		Windowed:  true,
		Allocates: false,
		Recode: func(state []byte) ([]byte, error) {
			s, err := reference{flaw: f}.decode(state)
			return reference{flaw: f}.encode(nil, s), err
		},
		Oracle: func(l algo.Limit) Oracle { return IntervalBucket(l, 2*l.Count) },
		effort: effort{limits: 7, layer: 8, tries: 12, depth: 4, judged: 250, random: 6_000, game: 2_000},
	}
	if f == payingHastens || f == largeCostsDelay { // no bucket of that kind
		s.Oracle = nil
	}
	return s
}

// failures are the laws that the subject fails, with what they say of it.
func failures(s Subject) map[string]string {
	failed := map[string]string{}
	for _, law := range laws {
		r := &recorder{}
		law.hold(r, s)
		if len(r.said) > 0 {
			failed[law.name] = fmt.Sprint(slices.Collect(slices.Values(r.said)))
		}
	}
	return failed
}

// fails reports whether the subject fails the law of that name.
func fails(s Subject, name string) bool {
	r := &recorder{}
	for _, law := range laws {
		if law.name == name {
			law.hold(r, s)
		}
	}
	return len(r.said) > 0
}

// A recorder is a testing.TB that keeps what it is told.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func TestASubjectThatRefusesEverythingFails(t *testing.T) {
	t.Parallel()
	s := subject(honest)
	s.New = func(algo.Limit) (algo.Policy, error) { return nil, errors.New("not today") }
	require.Len(t, failures(s), len(laws))
}

func TestASubjectThatIsNothingFails(t *testing.T) {
	t.Parallel()
	none := subject(honest)
	none.New = func(algo.Limit) (algo.Policy, error) { return nil, nil }
	failed := failures(none)
	require.Len(t, failed, len(laws))
	for _, text := range failed {
		require.Contains(t, text, "New gives neither a policy nor an error for ")
	}

	some := subject(honest)
	some.New = func(l algo.Limit) (algo.Policy, error) { // but one in 72 small limits is nothing
		if l == algo.Per(1, 1) {
			return nil, nil
		}
		return newReference(honest)(l)
	}
	require.Len(t, failures(some), len(laws)-1, "one in any period of 100 is a policy")

	failed = failures(Subject{Name: "nobody"})
	require.Len(t, failed, len(laws))
	for _, text := range failed {
		require.Equal(t, "[algotest: a Subject needs New]", text)
	}
}

// Not in parallel with the others: it gives way to them at every step.
func TestSharedScratchIsFound(t *testing.T) {
	s := subject(honest)
	s.New = func(l algo.Limit) (algo.Policy, error) {
		p, err := newReference(honest)(l)
		return forgetful{p, new(atomic.Int64)}, err
	}
	failed := failures(s)
	require.Len(t, failed, 1)
	require.Contains(t, failed["Concurrent"], "one goroutine that asks for a step of ")
}

// forgetful puts the cost down while it looks at the state.
type forgetful struct {
	algo.Policy
	scratch *atomic.Int64
}

func (f forgetful) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	f.scratch.Store(cost)
	runtime.Gosched()
	return f.Policy.Step(dst, state, now, f.scratch.Load())
}

func TestAnAllocatingStepIsFound(t *testing.T) {
	t.Parallel()
	s := subject(honest)
	s.New = func(l algo.Limit) (algo.Policy, error) {
		p, err := newReference(honest)(l)
		return wasteful{p}, err
	}
	r := &recorder{}
	Frugal(r, s)
	require.Equal(t, raceEnabled, len(r.said) == 0)
	s.Allocates = true
	r = &recorder{}
	Frugal(r, s)
	require.Empty(t, r.said)
}

type wasteful struct{ algo.Policy }

func (w wasteful) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return w.Policy.Step(dst, append(make([]byte, 0, len(state)+1<<20), state...), now, cost)
}
