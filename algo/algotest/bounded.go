package algotest

import (
	"bytes"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Bounded is law 8. An interval of x ns is x consecutive instants, and a clock
// that is read in order.
func Bounded(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 8, name: "Bounded",
		sentence: "over any interval the cost admitted is within the bound that the policy states",
		judge:    bounded,
		also:     func(h *hunt) *finding { return h.greediest() },
	}.hold(t, s)
}

func bounded(p *point) {
	if p.now != p.past.latest {
		return
	}
	sum, until := new(big.Int), p.past.event.at
	for n := p.past; n.before != nil; n = n.before {
		sum.Add(sum, big.NewInt(n.event.r.Paid))
		if until-n.event.at == math.MaxInt64 {
			return
		}
		interval := time.Duration(until - n.event.at + 1)
		bound := p.policy.Bound(interval) // math.MaxInt64: more than can be said
		p.require(bound == math.MaxInt64 || sum.Cmp(big.NewInt(bound)) <= 0, "%v units are admitted from %s to %s, an interval of %v, in which at most %d can be",
			sum, offset(n.event.at), offset(until), interval, bound)
	}
}

// greediest plays every adversary of the small limits: from each state reached,
// the most that can be had in 1, 2, 3 ... consecutive instants by any steps.
func (h *hunt) greediest() *finding {
	for i := 0; i < 72; i += h.effort.limits {
		limit := algo.Per(int64(i%6)+1, time.Duration(i/6)+1)
		if h.effort.limits > 1 && limit.Count*int64(limit.Period) > 20 {
			continue
		}
		policy := h.policy(limit)
		if policy == nil {
			continue
		}
		g := game{policy: policy, limit: limit, best: map[string][]int64{}}
		g.end = epoch.UnixNano() + 3*int64(limit.Period) + 1
		for start := epoch.UnixNano(); start < epoch.UnixNano()+int64(limit.Period); start++ {
			if f := h.play(&g, root(), start); f != nil {
				return f
			}
		}
	}
	return nil
}

// A game remembers, for a state and an instant, the most that can be had in 0, 1,
// 2 ... instants from there.
type game struct {
	policy algo.Policy
	limit  algo.Limit
	end    int64
	best   map[string][]int64
}

func (g *game) most(state []byte, now int64) []int64 {
	if now == g.end {
		return []int64{0}
	}
	id := string(big.NewInt(now).Bytes()) + "," + string(state)
	if known, ok := g.best[id]; ok {
		return known
	}
	best := append([]int64{0}, g.most(state, now+1)...) // to wait
	g.moves(state, now, func(_ int64, next []byte, paid int64) {
		for i, had := range g.most(next, now) {
			if i > 0 {
				best[i] = max(best[i], had+paid)
			}
		}
	})
	g.best[id] = best
	return best
}

func (g *game) moves(state []byte, now int64, move func(cost int64, next []byte, paid int64)) {
	for cost := int64(1); cost <= small; cost++ {
		next, r, err := g.policy.Step(nil, state, instant(now), cost)
		if err != nil || !r.Allowed || bytes.Equal(next, state) {
			continue
		}
		move(cost, next, r.Paid)
	}
}

// play follows the first steps to every state within a period and looks for a
// game won from there.
func (h *hunt) play(g *game, n *node, now int64) *finding {
	if n.depth > 0 || now == epoch.UnixNano() {
		for x, had := range g.most(n.state, now) {
			if x > 0 && had > g.policy.Bound(time.Duration(x)) {
				return h.examineWon(g, n, now, x, had)
			}
		}
	}
	if n.depth == 2 {
		return nil
	}
	var f *finding
	g.moves(n.state, now, func(cost int64, next []byte, paid int64) {
		e := event{limit: g.limit, op: step, at: now, cost: cost, r: algo.Result{Allowed: true, Cost: cost, Paid: paid}}
		for at := now; f == nil && n.depth < 2 && at < now+int64(g.limit.Period); at++ {
			f = h.play(g, n.then(e, next), at)
		}
	})
	return f
}

// examineWon replays the game won from n: had units in x instants from now on.
func (h *hunt) examineWon(g *game, n *node, now int64, x int, had int64) *finding {
	state, t := n.state, now
	for x > 0 {
		waited := append([]int64{0}, g.most(state, t+1)...)
		if t+1 == g.end {
			waited = []int64{0, 0}
		}
		if waited[x] == had {
			t, x = t+1, x-1
			continue
		}
		moved := false
		g.moves(state, t, func(cost int64, next []byte, paid int64) {
			if most := g.most(next, t); !moved && most[x]+paid == had {
				n = h.try(n, g.policy, event{limit: g.limit, op: step, at: t, cost: cost})
				state, had, moved = next, had-paid, true
			}
		})
		if !moved {
			break
		}
	}
	return h.examine(n, g.limit, g.policy, n.latest)
}
