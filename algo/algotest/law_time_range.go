package algotest

import (
	"bytes"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// outOfRange are times outside the range of algo.Instant. Some of them do not fit into an int64
// of nanoseconds.
var outOfRange = []struct {
	time    time.Time
	clamped int64
}{
	{instant(-1), 0},
	{time.Date(1492, 10, 12, 2, 0, 0, 0, time.UTC), 0},
	{time.Time{}, 0},
	{instant(algo.MaxInstant + 1), algo.MaxInstant},
	{time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), algo.MaxInstant},
}

func timeIsClamped(p *point) {
	for _, cost := range p.costs() {
		for _, o := range outOfRange {
			p.clearProbes()
			p.requireClamped(p.state, cost, o.clamped, o.time)
			used, _ := p.charge(p.state, o.clamped, cost) // because the state may have expired
			p.requireClamped(used, cost, o.clamped, o.time)
		}
	}
}

// requireClamped requires the same result at the time as at the instant.
func (p *point) requireClamped(state []byte, cost, at int64, outside time.Time) {
	policy := mappedTime{p.policy, func(time.Time) time.Time { return outside }}
	for _, op := range allOps {
		want, r := p.call(op, state, at, cost)
		next, r2, err := p.search.apply(policy, op, nil, state, at, cost)
		if !(err == nil && r == r2 && bytes.Equal(want, next)) {
			p.fail("a %v of %d at %s returns\n    %+v %x, but in the year %d\n    %+v %x (error %v)",
				op, cost, offset(at), r, want, outside.Year(), r2, next, err)
		}
	}
}
