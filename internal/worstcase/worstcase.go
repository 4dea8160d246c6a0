// Package worstcase searches for the calls that get the most units from a policy in any interval of a length.
// It may miss the worst calls. But Policy.Step allowed all that it finds.
//
//	calls := worstcase.Search(policy, 1, time.Minute, begin)
//	units := worstcase.Most(calls, time.Minute) // at most policy.Bound(time.Minute)
package worstcase

import (
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Call is an allowed call of one key.
type Call struct {
	At   int64 // microseconds since the Unix epoch
	Cost int64 // units, at least 1
}

// Most returns the most units of the calls in any half-open interval of that length. The times of calls are rounded
// down, so calls count as closer than they are by up to 999ns; see algo.Microseconds.
func Most(calls []Call, interval time.Duration) int64 {
	var most, sum int64
	first := 0
	for _, c := range calls {
		sum += c.Cost
		for c.At-calls[first].At > algo.Microseconds(interval) {
			sum -= calls[first].Cost
			first++
		}
		most = max(most, sum)
	}
	return most
}

const (
	mostCalls = 400 // of one caller
	steps     = 24  // parts of the interval at which callers try
)

// search has the best calls so far.
type search struct {
	policy   algo.Policy
	cost     int64
	length   time.Duration // of the interval
	interval int64         // the instants that it can span
	best     []Call
	most     int64
}

// Search returns the calls, in the order of time. The cost of each is a multiple of cost, which must be at least 1. The first
// call comes soon after begin. interval must be positive. The search is deterministic. It makes at most a few hundred calls, so a
// policy that gives back many more units one by one can admit more.
func Search(p algo.Policy, cost int64, interval time.Duration, begin time.Time) []Call {
	t0 := algo.Instant(begin)
	longest := (algo.MaxInstant - t0) / 8 // so that no time overflows
	s := &search{policy: p, cost: cost, length: interval, interval: min(algo.Microseconds(interval)+1, longest)}
	period := min(p.Limit().Period.Microseconds(), longest)
	t0 += (period - t0%period) % period // windows that are aligned to the clock begin here
	_, _, refill := s.take(nil, nil, t0, false)
	edge := t0 + min(refill, longest) // windows with an offset begin here
	for _, start := range []int64{t0, t0 + period/2, t0 + period - 1, t0 + period - period/20, edge - 1} {
		s.try(nil, nil, start)
		for _, one := range []bool{true, false} {
			state, calls, _ := s.take(nil, nil, start, one)
			calls = slices.Clip(calls) // so that each try appends to a copy
			for _, gap := range s.gaps(period) {
				s.try(state, calls, start+gap)
				second, both, _ := s.take(state, calls, start+gap, false)
				s.try(second, both, start+2*gap)
			}
		}
	}
	return s.best
}

// gaps returns the times between a first call and the interval in which a caller takes all.
func (s *search) gaps(period int64) []int64 {
	gaps := []int64{1, period / 2, period - 1, period, s.interval - 1, s.interval}
	for i := range int64(steps) {
		gaps = append(gaps, i*(period/steps))
	}
	slices.Sort(gaps)
	return slices.Compact(slices.DeleteFunc(gaps, func(g int64) bool { return g < 1 }))
}

// try extends calls, which led to the state, by calls that take all units at the start of the interval, after each
// refill, at equal distances, and at the last instant.
func (s *search) try(state []byte, calls []Call, start int64) {
	end := start + s.interval - 1
	step := max(1, s.interval/steps)
	for now, i := start, 0; now <= end && i < mostCalls; i++ {
		var refill int64
		state, calls, refill = s.take(state, calls, now, false)
		soonest := now + step
		if refill > 0 && i < mostCalls/2 {
			soonest = min(soonest, now+refill)
		}
		if now < end {
			soonest = min(soonest, end)
		}
		now = soonest
	}
	if most := Most(calls, s.length); most > s.most {
		s.most, s.best = most, calls
	}
}

// take takes all units that are left at an instant, or the cost once, and appends the call. It also returns the time
// until units come back. If too little is left, it changes nothing.
func (s *search) take(state []byte, calls []Call, now int64, one bool) (next []byte, all []Call, refill int64) {
	at := time.UnixMicro(now)
	r, err := s.policy.Peek(state, at, s.cost)
	if err != nil || r.Remaining < s.cost {
		return state, calls, max(r.NextRefill, r.RetryAfter).Microseconds()
	}
	cost := r.Remaining / s.cost * s.cost
	if one {
		cost = s.cost
	}
	next, r, err = s.policy.Step(nil, state, at, cost)
	if err != nil || !r.Allowed {
		return state, calls, r.NextRefill.Microseconds()
	}
	return next, append(calls, Call{now, cost}), r.NextRefill.Microseconds()
}
