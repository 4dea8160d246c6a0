package algotest

import (
	"bytes"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// TimeStandsStill is law 16: time stands still before 1970 and after 2116: what is
// asked there is answered as at instant 0, or at the last one.
func TimeStandsStill(t testing.TB, s Subject) {
	t.Helper()
	s.effort = effort{limits: 5, layer: 6, tries: 8, depth: 2, judged: 250, random: 6_000} // every point is asked much
	law{
		number: 16, name: "TimeStandsStill",
		sentence: "time stands still before 1970 and after 2116: what is asked there is answered as at instant 0, or at the last one",
		judge:    timeStandsStill,
		verbs:    []op{refund, charge}, skewed: true,
	}.hold(t, s)
}

// beyond are times out of range, among them such as no int64 of nanoseconds holds.
var beyond = []struct {
	time  time.Time
	stays int64
}{
	{instant(-1), 0},
	{time.Date(1492, 10, 12, 2, 0, 0, 0, time.UTC), 0},
	{time.Time{}, 0},
	{instant(algo.MaxInstant + 1), algo.MaxInstant},
	{time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), algo.MaxInstant},
}

func timeStandsStill(p *point) {
	for _, cost := range p.costs() {
		for _, b := range beyond {
			p.forget()
			p.standsStill(p.state, cost, b.stays, b.time)
			used, _ := p.charge(p.state, b.stays, cost) // the state may have lapsed long since
			p.standsStill(used, cost, b.stays, b.time)
		}
	}
}

// standsStill requires that what is asked at a time is answered as at an instant.
func (p *point) standsStill(state []byte, cost, at int64, told time.Time) {
	there := retold{p.policy, func(time.Time) time.Time { return told }}
	for _, op := range []op{step, peek, refund, charge} {
		want, r := p.call(op, state, at, cost)
		next, r2, err := p.hunt.counted(there, op, nil, state, at, cost)
		if !(err == nil && r == r2 && bytes.Equal(want, next)) {
			p.fail("a %v of %d is answered at %s\n    %+v %x, and in the year %d\n    %+v %x (error %v)",
				op, cost, offset(at), r, want, told.Year(), r2, next, err)
		}
	}
}
