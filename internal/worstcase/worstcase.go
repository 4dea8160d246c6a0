// Package worstcase searches for the calls that get the most units from a policy in any interval of
// a length. Nothing proves that the calls found are the worst, but they are real: each was decided
// by Policy.Step.
//
//	calls := worstcase.Search(policy, time.Minute, begin, 2000)
//	units := worstcase.Most(calls, time.Minute) // at most policy.Bound(time.Minute)
package worstcase

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Call is an allowed call of one key.
type Call struct {
	At   int64 // nanoseconds since the Unix epoch
	Cost int64 // units, at least 1
}

// Most returns the most units of the calls in any half-open interval of that length.
func Most(calls []Call, interval time.Duration) int64 {
	var most, sum int64
	first := 0
	for _, c := range calls {
		sum += c.Cost
		for calls[first].At <= c.At-int64(interval) {
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

// A plan is to take units at an instant: all that are left, or one.
type plan struct {
	at  int64
	one bool
}

// search has the best calls so far.
type search struct {
	policy   algo.Policy
	interval int64
	best     []Call
	most     int64
	plans    []plan // that led to best
}

// Search returns the calls, in the order of time. The first call comes soon after begin. interval
// must be positive. changes is how many random changes of the best calls the search tries; 2,000 take
// some 10ms. The search is deterministic. A caller makes at most a few hundred calls, so a policy that
// gives many more units back one by one within the interval can admit more.
func Search(p algo.Policy, interval time.Duration, begin time.Time, changes int) []Call {
	t0 := algo.Instant(begin)
	longest := (algo.MaxInstant - t0) / 8 // so that no time overflows
	s := &search{policy: p, interval: min(int64(interval), longest)}
	period := min(int64(p.Limit().Period), longest)
	t0 += (period - t0%period) % period // windows that are aligned to the clock begin here
	for _, start := range []int64{t0, t0 + period/2, t0 + period - 1, t0 + period - period/20} {
		s.try(nil, start)
		for _, gap := range s.gaps(period) {
			for _, one := range []bool{true, false} {
				s.try([]plan{{start, one}}, start+gap)
				s.try([]plan{{start, one}, {start + gap, false}}, start+2*gap)
			}
		}
	}
	s.improve(changes, rand.New(rand.NewPCG(1, 1)))
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

// try extends the plans by a caller that takes all units at the start of the interval, after each
// refill, at equal distances, and at the last instant.
func (s *search) try(plans []plan, start int64) {
	end := start + s.interval - 1
	state, calls := s.run(plans)
	if len(calls) > 0 && start < calls[len(calls)-1].At {
		return
	}
	all := slices.Clone(plans)
	for now, i := start, 0; now <= end && i < mostCalls; i++ {
		call, next, refill := s.take(state, plan{at: now})
		state = next
		if call.Cost > 0 {
			calls = append(calls, call)
			all = append(all, plan{at: now})
		}
		step := max(1, s.interval/steps)
		soonest := now + step
		if refill > 0 && i < mostCalls/2 {
			soonest = min(soonest, now+refill)
		}
		if now < end {
			soonest = min(soonest, end)
		}
		now = soonest
	}
	s.keep(all, calls)
}

func (s *search) keep(plans []plan, calls []Call) {
	if most := Most(calls, time.Duration(s.interval)); most > s.most {
		s.most, s.best, s.plans = most, slices.Clone(calls), slices.Clone(plans)
	}
}

// run carries out plans on a new key. The plans must be in the order of time.
func (s *search) run(plans []plan) (state []byte, calls []Call) {
	for _, p := range plans {
		call, next, _ := s.take(state, p)
		state = next
		if call.Cost > 0 {
			calls = append(calls, call)
		}
	}
	return state, calls
}

// take carries out one plan. It returns the call without a cost if nothing is left, and the time
// until units come back.
func (s *search) take(state []byte, p plan) (call Call, next []byte, refill int64) {
	at := time.Unix(0, p.at)
	r, err := s.policy.Peek(state, at, 1)
	if err != nil || r.Remaining < 1 {
		return Call{At: p.at}, state, int64(r.NextRefill)
	}
	cost := r.Remaining
	if p.one {
		cost = 1
	}
	next, r, err = s.policy.Step(nil, state, at, cost)
	if err != nil || !r.Allowed {
		return Call{At: p.at}, state, int64(r.NextRefill)
	}
	return Call{p.at, cost}, next, int64(r.NextRefill)
}

// improve changes the best plans at random, and keeps the changes that get more units.
func (s *search) improve(changes int, random *rand.Rand) {
	shift := func() int64 { return random.Int64N(s.interval+1) >> random.IntN(40) }
	for range changes {
		plans := slices.Clone(s.plans)
		if len(plans) == 0 {
			return
		}
		p := &plans[random.IntN(len(plans))]
		switch random.IntN(5) {
		case 0:
			p.at += shift()
		case 1:
			p.at -= min(p.at, shift())
		case 2:
			p.one = !p.one
		case 3:
			if len(plans) < mostCalls {
				plans = append(plans, plan{p.at + shift(), random.IntN(4) == 0})
			}
		case 4:
			*p = plans[len(plans)-1]
			plans = plans[:len(plans)-1]
		}
		slices.SortFunc(plans, func(a, b plan) int { return cmp.Compare(a.at, b.at) })
		_, calls := s.run(plans)
		s.keep(plans, calls)
	}
}
