package algotest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/inflight"
)

// Each flaw breaks at least one law of held units.
var (
	holdFlaws flawList

	takesOneMoreInThePast = holdFlaws.add("HeldUnitsAreInUse", "one unit more is taken if the clock has stepped back")
	returnsEarly          = holdFlaws.add("HeldUnitsAreInUse", "units return after half of the Period")
	releasesNewest        = holdFlaws.add("ReleaseFreesOwnUnits", "a release frees the units that were taken last")
	releasesAfterReturn   = holdFlaws.add("ReleaseFreesOwnUnits", "a release frees other units if its own have returned")
	releasesOneUnit       = holdFlaws.add("ReleaseFreesOwnUnits", "a release frees one unit")
	reportsRenewals       = holdFlaws.add("RenewalChargesNothing", "Paid of a renewal is its cost")
	renewsByCharge        = holdFlaws.add("RenewalChargesNothing", "a renewal takes other units, and does not free those that were held")
	renewsInPlace         = holdFlaws.add("RenewalChargesNothing", "a renewal changes nothing")
	renewsReturnedUnits   = holdFlaws.add("RenewalChargesNothing", "a renewal of units that have returned takes new ones")
	deniesForATime        = holdFlaws.add("RenewalChargesNothing", "a renewal that is denied has a RetryAfter of 1s")
	storesDeniedRenewals  = holdFlaws.add("RenewalChargesNothing", "a renewal that is denied resets the key")
	returnsLate           = holdFlaws.add("UnitsReturn", "units return after twice the Period")
	reportsLateReset      = holdFlaws.add("UnitsReturn", "ResetAfter of a peek is 1us too long")
)

// A flawedHolder is the algorithm of package inflight with a flaw.
type flawedHolder struct {
	algo.Holder
	flaw *flaw
	more algo.Holder // has a Count that is one higher
}

type flawedHeld struct {
	algo.Policy
	of flawedHolder
}

// heldSubject has slots of a fourth of the Period.
func heldSubject(f *flaw) Subject {
	return Subject{
		Name: "inflight",
		New: func(l algo.Limit) (algo.Policy, error) {
			o := inflight.Options{Count: l.Count, TTL: l.Period, Slots: 4}
			switch f {
			case returnsEarly:
				o.TTL = (o.TTL / 2).Truncate(time.Microsecond)
			case returnsLate:
				o.TTL *= 2
			}
			p, err := inflight.New(o)
			if err != nil {
				return nil, err
			}
			if o.Count++; o.Count > algo.MaxCount {
				return nil, errors.New("the count is too large")
			}
			more, err := inflight.New(o)
			return flawedHolder{p, f, more}, err
		},
		HeldAtMost: func(l algo.Limit) time.Duration { return micros(5 * ((l.Period.Microseconds() + 3) / 4)) },
	}
}

func (p flawedHolder) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	next, r, err := p.Holder.Step(dst, state, now, cost)
	if p.flaw == takesOneMoreInThePast && !r.Allowed && r.Skew > 0 {
		return p.more.Step(dst, state, now, cost)
	}
	return next, r, err
}

func (p flawedHolder) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	r, err := p.Holder.Peek(state, now, cost)
	if p.flaw == reportsLateReset && r.ResetAfter > 0 {
		r.ResetAfter += time.Microsecond
	}
	return r, err
}

func (p flawedHolder) Held(taken time.Time) algo.Policy { return flawedHeld{p.Holder.Held(taken), p} }

func (p flawedHeld) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	switch p.of.flaw {
	case releasesNewest:
		return p.of.Refund(dst, state, now, cost)
	case releasesOneUnit:
		cost = 1
	}
	next, r, err := p.Policy.Refund(dst, state, now, cost)
	if p.of.flaw == releasesAfterReturn && r.Paid == 0 {
		return p.of.Refund(dst, state, now, cost)
	}
	return next, r, err
}

func (p flawedHeld) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	next, r, err := p.Policy.Step(dst, state, now, cost)
	switch {
	case p.of.flaw == reportsRenewals && r.Allowed:
		r.Paid = cost
	case p.of.flaw == renewsByCharge && r.Allowed, p.of.flaw == renewsReturnedUnits && !r.Allowed:
		return p.of.Step(dst, state, now, cost)
	case p.of.flaw == renewsInPlace && r.Allowed:
		return append(dst, state...), r, err
	case p.of.flaw == deniesForATime && !r.Allowed:
		r.RetryAfter = time.Second
	case p.of.flaw == storesDeniedRenewals && !r.Allowed:
		return dst, r, err
	}
	return next, r, err
}

func TestEachFlawBreaksALawOfHeldUnits(t *testing.T) {
	t.Parallel()
	for _, f := range holdFlaws {
		t.Run(f.text, func(t *testing.T) {
			t.Parallel()
			failed := testHoldLaw(f.law, heldSubject(f))
			require.NotEmpty(t, failed)
			t.Log(failed)
		})
	}
}

func TestHolderWithoutAFlawObeysEveryLawOfHeldUnits(t *testing.T) {
	t.Parallel()
	RunHolds(t, heldSubject(noFlaw))
}

// A Holder can keep the instant of each unit. Its units return exactly after the Period.
func TestUnitsOfOneInstantAreNeverApart(t *testing.T) {
	k := heldKey{limit: algo.Per(1, time.Second), longest: time.Second.Microseconds()}
	require.False(t, k.areApart(&hold{taken: 5}, &hold{taken: 5}))
	require.True(t, k.areApart(&hold{taken: 5}, &hold{taken: 6}))
}

// testHoldLaw returns the errors of a law of held units.
func testHoldLaw(name string, s Subject) []string {
	r := &recorder{}
	i := slices.IndexFunc(holdLaws, func(l holdLaw) bool { return l.name == name })
	holdLaws[i].test(r, s, i+1)
	return r.errors
}

func TestSubjectsWithoutHoldersFail(t *testing.T) {
	t.Parallel()
	valid := heldSubject(noFlaw)
	for want, edit := range map[string]func(*Subject){
		"algotest: Subject.New and Subject.HeldAtMost are required":     func(s *Subject) { s.HeldAtMost = nil },
		"New returns a algotest.reference, which is not an algo.Holder": func(s *Subject) { s.New = newReference(noFlaw) },
		"algotest: New of inflight refuses ": func(s *Subject) {
			s.New = func(algo.Limit) (algo.Policy, error) { return nil, errors.New("not today") }
		},
	} {
		s := valid
		edit(&s)
		for _, law := range holdLaws {
			require.Contains(t, fmt.Sprint(testHoldLaw(law.name, s)), want)
		}
	}
}
