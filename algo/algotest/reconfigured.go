package algotest

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Reconfigured is law 14: what was used stays used: raising a limit gives relief
// at once, lowering it bites at once.
func Reconfigured(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 14, name: "Reconfigured",
		sentence: "what was used stays used: raising a limit gives relief at once, lowering it bites at once",
		judge:    reconfigured,
		verbs:    []op{refund, charge},
	}.hold(t, s)
}

// reconfigured changes the limit at the time of the last event: from then on
// units come back at the new rate, and what is there differs with the algorithm.
func reconfigured(p *point) {
	if p.now != p.past.latest {
		return
	}
	was, under := p.limit, p.policy
	for _, l := range changes(was) {
		other, err := p.subject.New(l)
		if err != nil {
			continue
		}
		p.forget()
		p.limit, p.policy = was, under
		before := p.peek(p.state, p.now, 1)
		p.limit, p.policy = l, other
		p.changed(was, before)
	}
}

// changed requires what the point's limit makes of a state that another has left.
func (p *point) changed(was algo.Limit, before algo.Result) {
	after := p.peek(p.state, p.now, 1)
	if !exact(after) {
		return // the use is beyond what the new limit can express
	}
	if p.past.event.r.Fresh {
		p.asIfPaid(was, p.past.event.r.Paid)
	}
	switch {
	case p.subject.Composed:
		grew := after.Remaining >= before.Remaining
		shrank := after.Remaining <= before.Remaining
		p.require(p.limit.Period != was.Period || (p.limit.Count < was.Count || grew) && (p.limit.Count > was.Count || shrank),
			"the limit goes from %v to %v and what is left from %d to %d", was, p.limit, before.Remaining, after.Remaining)
	case p.limit.Period == was.Period || !p.subject.Windowed:
		p.usedAlike(was, before, after)
		p.atOnce(after.Remaining)
		p.waits(was, after)
	}
}

func changes(l algo.Limit) []algo.Limit {
	var all []algo.Limit
	for _, count := range []int64{1, l.Count / 2, l.Count - 1, l.Count + 1, l.Count + l.Count/2, 2 * l.Count, 1 << 30, algo.MaxCount} {
		for _, period := range []time.Duration{l.Period, l.Period/2 + 1, l.Period + 1, time.Second} {
			all = append(all, algo.Per(count, period))
		}
	}
	return all
}

// asIfPaid requires that a key, which was fresh until the last event, stands as if
// that had paid under the new limit: of what it took nothing has come back yet.
func (p *point) asIfPaid(was algo.Limit, units int64) {
	paid, r := p.charge(nil, p.now, units)
	if r.Paid == units {
		p.alike(paid, p.state, p.now, identical, fmt.Sprintf("after %d units were paid under %v, or under %v before it changed to that", units, p.limit, was))
	}
}

func (p *point) usedAlike(was algo.Limit, before, after algo.Result) {
	p.require(before.Limit-before.Remaining == after.Limit-after.Remaining,
		"under %v %d of %d are left, %d used; under %v, at the same instant, %d of %d, %d used", was,
		before.Remaining, before.Limit, before.Limit-before.Remaining, p.limit, after.Remaining, after.Limit, after.Limit-after.Remaining)
}

// atOnce requires that a step under the new limit takes what is left and no more.
func (p *point) atOnce(left int64) {
	for _, cost := range []int64{left, left + 1} {
		if cost < 1 {
			continue
		}
		_, r := p.step(p.state, p.now, cost)
		p.require(r.Allowed == (cost <= left), "the limit becomes %v, with %d left; cost %d: Allowed %v", p.limit, left, cost, r.Allowed)
	}
}

// waits requires that the key waits under the new limit no longer than one that has
// paid as much under it just now; and shorter by less than its next refill takes, a
// part of which may have passed. Units in a moving window, being of different ages,
// may come back sooner.
func (p *point) waits(was algo.Limit, after algo.Result) {
	used := after.Limit - after.Remaining
	if used < 1 {
		return
	}
	paid, r := p.charge(nil, p.now, used)
	if r.Paid != used || !exact(r) {
		return
	}
	now := p.peek(paid, p.now, 1)
	within := func(what string, wait, most time.Duration) {
		least := most - now.NextRefill
		if p.subject.Windowed {
			least = 0
		}
		p.require(least <= wait && wait <= most, "%d units are used when %v becomes %v, and %s is %v; right after as many were paid it is %v, the next refill in %v",
			used, was, p.limit, what, wait, most, now.NextRefill)
	}
	within("NextRefill", after.NextRefill, now.NextRefill)
	within("ResetAfter", after.ResetAfter, now.ResetAfter)
	for _, cost := range []int64{after.Remaining + 1, after.Limit/2 + 1, after.Limit} {
		cost = max(cost, 1)
		within("RetryAfter", p.peek(p.state, p.now, cost).RetryAfter, p.peek(paid, p.now, cost).RetryAfter)
	}
}
