package algotest

import (
	"iter"
	"math"
	"slices"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

// tick returns Subject.Tick in microseconds.
func (s *search) tick() int64 { return max(1, s.subject.Tick.Microseconds()) }

// small returns every n-th of the 72 limits with counts up to 6 and periods up to 12 ticks, with its
// policy. If n has the factor 2 or 3, some counts are missing.
func (s *search) small(n int) iter.Seq2[algo.Limit, algo.Policy] {
	return func(yield func(algo.Limit, algo.Policy) bool) {
		for i := 0; i < 72; i += n {
			limit := algo.Per(int64(i%6)+1, micros((int64(i/6)+1)*s.tick()))
			if policy := s.policy(limit); policy != nil && !yield(limit, policy) {
				return
			}
		}
	}
}

// smallLimits searches under small limits, from state to state.
func (s *search) smallLimits() *violation {
	for limit, policy := range s.small(s.effort.limits) {
		starts := []int64{epoch.UnixMicro()}
		if limit.Count%3 == 1 {
			starts = append(starts, 0)
		}
		for _, start := range starts {
			if v := s.searchFrom(limit, policy, start); v != nil {
				return v
			}
		}
	}
	return nil
}

// searchFrom checks the states after at most effort.depth events, in the order of their
// depth. If a depth has too many states, it checks a sample.
func (s *search) searchFrom(limit algo.Limit, policy algo.Policy, start int64) *violation {
	effort := s.effort
	if limit.Count*limit.Period.Microseconds()/s.tick() <= effort.exhaustive {
		effort.layer, effort.tries, effort.checks = 1_000, math.MaxInt, 80*effort.checks
	}
	s.checked = visited{}

	layer, reached := []*node{root()}, visited{}
	for depth := 0; ; depth++ {
		if v := s.checkLayer(layer, limit, policy, start, effort.checks); v != nil || depth == effort.depth {
			return v
		}
		var next []*node
		for _, n := range layer {
			for e := range s.events(n, limit, policy, start, effort.tries) {
				if to := s.next(n, policy, e, reached); to != n {
					next = append(next, to)
				}
			}
		}
		s.random.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
		layer = next[:min(len(next), effort.layer)]
	}
}

// checkLayer checks the states at all relevant times, in random order, with at most that
// many calls.
func (s *search) checkLayer(layer []*node, limit algo.Limit, policy algo.Policy, start int64, calls int) *violation {
	type check struct {
		n   *node
		now int64
	}
	var checks []check
	for _, n := range layer {
		from, to := start, n.latest+2*(limit.Period.Microseconds()+s.tick())
		switch {
		case n.before == nil:
			to = start + limit.Period.Microseconds()
		case !s.law.clockStepsBack:
			from = n.latest
		}
		for now := from; now <= to; now += s.tick() {
			checks = append(checks, check{n, now})
		}
	}
	s.random.Shuffle(len(checks), func(i, j int) { checks[i], checks[j] = checks[j], checks[i] })
	for before := s.calls; len(checks) > 0 && s.calls-before < calls; checks = checks[1:] {
		if v := s.check(checks[0].n, limit, policy, checks[0].now); v != nil {
			return v
		}
	}
	return nil
}

// events returns up to n events: all that are possible, or a random choice of them. The first
// event of a key is within one period from start, and later ones within two.
func (s *search) events(after *node, limit algo.Limit, policy algo.Policy, start int64, n int) iter.Seq[event] {
	from, to := start, start+limit.Period.Microseconds()-s.tick()
	if after.before != nil {
		to = start + 2*(limit.Period.Microseconds()+s.tick())
		if !s.law.clockStepsBack {
			from = after.latest
		}
	}
	r, _ := policy.Peek(nil, instant(from), 1)
	costs, ops := costs(r.Limit, r.Limit), append([]op{step}, s.law.ops...)
	each := len(costs) * len(ops) // events at one instant
	all := int((to-from)/s.tick()+1) * each
	return func(yield func(event) bool) {
		for i := range min(n, all) {
			if n < all {
				i = s.random.IntN(all)
			}
			e := event{limit: limit, op: ops[i%len(ops)], at: from + int64(i/each)*s.tick(), cost: costs[i%each/len(ops)]}
			if !yield(e) {
				return
			}
		}
	}
}

// randomLimits searches random histories under random limits.
func (s *search) randomLimits() *violation {
	for start := s.calls; s.calls-start < s.effort.random; s.calls++ {
		limit := s.random.Limit()
		if policy := s.policy(limit); policy != nil {
			if v := s.randomHistory(limit, policy); v != nil {
				return v
			}
		}
	}
	return nil
}

// randomHistory checks every state of one random history, at several times.
func (s *search) randomHistory(limit algo.Limit, policy algo.Policy) *violation {
	const length = 12
	n, now := root(), s.random.UpTo(algo.MaxInstant+1)-1
	s.checked = visited{}
	for range length {
		if s.law.limitChanges && s.random.Chance(15) {
			if l := s.random.SimilarLimit(limit); s.policy(l) != nil {
				limit, policy = l, s.policy(l)
			}
		}
		op := step
		if len(s.law.ops) > 0 && s.random.Chance(30) {
			op = sample.OneOf(s.random, s.law.ops...)
		}
		e := event{limit: limit, op: op, at: now, cost: s.random.Cost(s.peek(n, policy, now))}
		n = s.next(n, policy, e, nil)

		r := s.peek(n, policy, now)
		for _, at := range s.interestingTimes(n, now, r, limit) {
			if v := s.check(n, limit, policy, at); v != nil {
				return v
			}
		}
		if now = s.random.Time(now, r, limit.Period, s.law.clockStepsBack); !s.law.clockStepsBack {
			now = max(now, n.latest)
		}
	}
	return nil
}

// peek returns the result of the smallest cost that is denied, or else of cost 1. It returns
// the zero Result if the policy panics.
func (s *search) peek(n *node, policy algo.Policy, now int64) (r algo.Result) {
	defer func() { _ = recover() }()
	r, _ = policy.Peek(n.state, instant(now), 1)
	if left := r.Available + r.Refilled; left >= 0 && left < r.Limit {
		r, _ = policy.Peek(n.state, instant(now), left+1)
	}
	return r
}

// interestingTimes returns times near now, and times at which the result r changes.
func (s *search) interestingTimes(n *node, now int64, r algo.Result, l algo.Limit) []int64 {
	all := []int64{now, after(now, r.NextRefill) - 1, after(now, r.NextRefill), after(now, r.ResetAfter) - 1,
		now + s.random.UpTo(l.Period.Microseconds())}
	if s.law.clockStepsBack {
		all = append(all, now-s.random.UpTo(l.Period.Microseconds()), now-s.random.UpTo(now+1), n.latest-1)
	}
	return slices.DeleteFunc(all, func(at int64) bool {
		return at < 0 || at > algo.MaxInstant || !s.law.clockStepsBack && at < n.latest
	})
}
