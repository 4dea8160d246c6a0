package algotest

import (
	"math"
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// upTo is log-uniform in [1, n]: every size is as likely as any other.
func (h *hunt) upTo(n int64) int64 {
	if n <= 1 {
		return 1
	}
	size := h.random.IntN(bits.Len64(uint64(n))) + 1
	return min(n, 1<<(size-1)+h.random.Int64N(1<<(size-1)))
}

func (h *hunt) chance(percent int) bool { return h.random.IntN(100) < percent }

func pick[T any](h *hunt, of ...T) T { return of[h.random.IntN(len(of))] }

// anyLimit is a limit from the whole valid range, or a handy one.
func (h *hunt) anyLimit() algo.Limit {
	if h.chance(30) {
		return algo.Per(h.random.Int64N(20)+1, time.Duration(h.random.Int64N(100)+1))
	}
	return algo.Per(h.upTo(algo.MaxCount), time.Duration(h.upTo(math.MaxInt64)))
}

// length is the events of a random history.
const length = 12

// randomLimits follows random histories under random limits.
func (h *hunt) randomLimits() *finding {
	for start := h.calls; h.calls-start < h.effort.random; h.calls++ {
		limit := h.anyLimit()
		policy := h.policy(limit)
		if policy == nil {
			continue
		}
		if f := h.follow(limit, policy); f != nil {
			return f
		}
	}
	return nil
}

// follow judges every state of one random history at a few readings of the clock.
func (h *hunt) follow(limit algo.Limit, policy algo.Policy) *finding {
	n, now := root(), h.upTo(algo.MaxInstant+1)-1
	h.known = seen{}
	for range length {
		if h.law.switches && h.chance(15) {
			if l := h.nearby(limit); h.policy(l) != nil {
				limit, policy = l, h.policy(l)
			}
		}
		r := h.look(n, policy, now)
		op := step
		if len(h.law.verbs) > 0 && h.chance(30) {
			op = pick(h, h.law.verbs...)
		}
		e := event{limit: limit, op: op, at: now, cost: h.cost(r)}
		n = h.try(n, policy, e)

		r = h.look(n, policy, now)
		for _, at := range h.moments(n, now, r, limit) {
			if f := h.examine(n, limit, policy, at); f != nil {
				return f
			}
		}
		if now = h.advance(now, r, limit); !h.law.skewed {
			now = max(now, n.latest)
		}
	}
	return nil
}

// look is a peek at the next unit; a policy that panics shows nothing.
func (h *hunt) look(n *node, policy algo.Policy, now int64) (r algo.Result) {
	defer func() { _ = recover() }()
	r, _ = policy.Peek(n.state, instant(now), 1)
	if left := r.Available + r.Refilled; left >= 0 && left < r.Limit {
		r, _ = policy.Peek(n.state, instant(now), left+1)
	}
	return r
}

// nearby is another limit for a key in use.
func (h *hunt) nearby(l algo.Limit) algo.Limit {
	switch h.random.IntN(4) {
	case 0:
		return h.anyLimit()
	case 1:
		return algo.Per(h.upTo(algo.MaxCount), l.Period)
	case 2:
		return algo.Per(max(1, l.Count/2), l.Period)
	default:
		return algo.Per(min(algo.MaxCount, l.Count+h.upTo(l.Count)), l.Period)
	}
}

// cost is one that the state is likely to care about.
func (h *hunt) cost(r algo.Result) int64 {
	left := r.Available + r.Refilled
	return max(1, pick(h, 1, left, left, left+1, left/2, h.upTo(r.Limit), h.upTo(max(1, left)), r.Limit))
}

// moments are readings at which a state is judged: about now and its edges.
func (h *hunt) moments(n *node, now int64, r algo.Result, l algo.Limit) []int64 {
	all := []int64{now, after(now, r.NextRefill) - 1, after(now, r.NextRefill), after(now, r.ResetAfter) - 1,
		after(now, time.Duration(h.upTo(int64(l.Period))))}
	if h.law.skewed {
		all = append(all, now-h.upTo(int64(l.Period)), now-h.upTo(now+1), n.latest-1)
	}
	valid := all[:0]
	for _, at := range all {
		if at >= 0 && at <= algo.MaxInstant && (h.law.skewed || at >= n.latest) {
			valid = append(valid, at)
		}
	}
	return valid
}

// advance is the next reading of the clock.
func (h *hunt) advance(now int64, r algo.Result, l algo.Limit) int64 {
	if h.law.skewed && h.chance(25) {
		return max(0, now-h.upTo(int64(l.Period)))
	}
	by := pick(h, 0, 0, 1, r.RetryAfter, r.NextRefill, r.NextRefill-1, r.ResetAfter-1, r.ResetAfter,
		time.Duration(h.upTo(int64(l.Period))), time.Duration(h.upTo(int64(l.Period))))
	return min(after(now, max(0, by)), algo.MaxInstant)
}
