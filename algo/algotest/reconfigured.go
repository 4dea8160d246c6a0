package algotest

import (
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
	for _, l := range changes(p.limit) {
		other, err := p.subject.New(l)
		if err != nil {
			continue
		}
		p.forget()
		before := p.peek(p.state, p.now, 1)
		q := *p
		q.limit, q.policy = l, other
		after := q.peek(p.state, p.now, 1)
		p.probes = q.probes
		switch {
		case !exact(after): // the use is beyond what the new limit can express
		case p.subject.Composed:
			grew := after.Remaining >= before.Remaining
			shrank := after.Remaining <= before.Remaining
			p.require(l.Period != p.limit.Period || (l.Count < p.limit.Count || grew) && (l.Count > p.limit.Count || shrank),
				"the limit goes from %v to %v and what is left from %d to %d", p.limit, l, before.Remaining, after.Remaining)
		case l.Period == p.limit.Period || !p.subject.Windowed:
			p.usedAlike(l, before, after)
			p.atOnce(&q, after.Remaining)
		}
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

func (p *point) usedAlike(l algo.Limit, before, after algo.Result) {
	p.require(before.Limit-before.Remaining == after.Limit-after.Remaining,
		"under %v %d of %d are left, %d used; under %v, at the same instant, %d of %d, %d used", p.limit,
		before.Remaining, before.Limit, before.Limit-before.Remaining, l, after.Remaining, after.Limit, after.Limit-after.Remaining)
}

// atOnce requires that a step under the new limit takes what is left and no more.
func (p *point) atOnce(q *point, left int64) {
	for _, cost := range []int64{left, left + 1} {
		if cost < 1 {
			continue
		}
		_, r := q.step(p.state, p.now, cost)
		p.probes = q.probes
		p.require(r.Allowed == (cost <= left), "the limit becomes %v, with %d left; cost %d: Allowed %v", q.limit, left, cost, r.Allowed)
	}
}
