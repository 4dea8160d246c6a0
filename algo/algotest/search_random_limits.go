package algotest

import (
	"math"
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// upTo returns a log-uniform number from 1 to n: all orders of magnitude are equally likely.
func (s *search) upTo(n int64) int64 {
	if n <= 1 {
		return 1
	}
	size := s.random.IntN(bits.Len64(uint64(n))) + 1
	return min(n, 1<<(size-1)+s.random.Int64N(1<<(size-1)))
}

func (s *search) chance(percent int) bool { return s.random.IntN(100) < percent }

func oneOf[T any](s *search, values ...T) T { return values[s.random.IntN(len(values))] }

// anyLimit returns a small limit, or one from the whole valid range.
func (s *search) anyLimit() algo.Limit {
	if s.chance(30) {
		return algo.Per(s.random.Int64N(20)+1, time.Duration(s.random.Int64N(100)+1))
	}
	return algo.Per(s.upTo(algo.MaxCount), time.Duration(s.upTo(math.MaxInt64)))
}

// randomLimits searches random histories under random limits.
func (s *search) randomLimits() *violation {
	for start := s.calls; s.calls-start < s.effort.random; s.calls++ {
		limit := s.anyLimit()
		policy := s.policy(limit)
		if policy == nil {
			continue
		}
		if v := s.randomHistory(limit, policy); v != nil {
			return v
		}
	}
	return nil
}

// randomHistory checks every state of one random history, at several times.
func (s *search) randomHistory(limit algo.Limit, policy algo.Policy) *violation {
	const length = 12
	n, now := root(), s.upTo(algo.MaxInstant+1)-1
	s.checked = visited{}
	for range length {
		if s.law.limitChanges && s.chance(15) {
			if l := s.similarLimit(limit); s.policy(l) != nil {
				limit, policy = l, s.policy(l)
			}
		}
		r := s.peek(n, policy, now)
		op := step
		if len(s.law.ops) > 0 && s.chance(30) {
			op = oneOf(s, s.law.ops...)
		}
		e := event{limit: limit, op: op, at: now, cost: s.cost(r)}
		n = s.next(n, policy, e)

		r = s.peek(n, policy, now)
		for _, at := range s.interestingTimes(n, now, r, limit) {
			if v := s.check(n, limit, policy, at); v != nil {
				return v
			}
		}
		if now = s.nextTime(now, r, limit); !s.law.clockStepsBack {
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

func (s *search) similarLimit(l algo.Limit) algo.Limit {
	switch s.random.IntN(4) {
	case 0:
		return s.anyLimit()
	case 1:
		return algo.Per(s.upTo(algo.MaxCount), l.Period)
	case 2:
		return algo.Per(max(1, l.Count/2), l.Period)
	default:
		return algo.Per(min(algo.MaxCount, l.Count+s.upTo(l.Count)), l.Period)
	}
}

// cost returns a random cost, often one at which the decision changes.
func (s *search) cost(r algo.Result) int64 {
	left := r.Available + r.Refilled
	return max(1, oneOf(s, 1, left, left, left+1, left/2, s.upTo(r.Limit), s.upTo(max(1, left)), r.Limit))
}

// interestingTimes returns times near now, and times at which the result r changes.
func (s *search) interestingTimes(n *node, now int64, r algo.Result, l algo.Limit) []int64 {
	all := []int64{now, after(now, r.NextRefill) - 1, after(now, r.NextRefill), after(now, r.ResetAfter) - 1,
		after(now, time.Duration(s.upTo(int64(l.Period))))}
	if s.law.clockStepsBack {
		all = append(all, now-s.upTo(int64(l.Period)), now-s.upTo(now+1), n.latest-1)
	}
	valid := all[:0]
	for _, at := range all {
		if at >= 0 && at <= algo.MaxInstant && (s.law.clockStepsBack || at >= n.latest) {
			valid = append(valid, at)
		}
	}
	return valid
}

func (s *search) nextTime(now int64, r algo.Result, l algo.Limit) int64 {
	if s.law.clockStepsBack && s.chance(25) {
		return max(0, now-s.upTo(int64(l.Period)))
	}
	by := oneOf(s, 0, 0, 1, r.RetryAfter, r.NextRefill, r.NextRefill-1, r.ResetAfter-1, r.ResetAfter,
		time.Duration(s.upTo(int64(l.Period))), time.Duration(s.upTo(int64(l.Period))))
	return min(after(now, max(0, by)), algo.MaxInstant)
}
