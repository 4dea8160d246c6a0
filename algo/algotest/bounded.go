package algotest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Bounded is law 8: over any interval the cost admitted, less what was given back,
// is within the bound that the policy states. An interval of x ns is x consecutive
// instants, and a clock that is read in order.
func Bounded(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 8, name: "Bounded",
		sentence: "over any interval the cost admitted, less what was given back, is within the bound that the policy states",
		judge:    bounded,
		verbs:    []op{refund},
		also: func(h *hunt) *finding {
			if f := h.patient(); f != nil {
				return f
			}
			return h.greediest()
		},
	}.hold(t, s)
}

func bounded(p *point) {
	if p.now != p.past.latest {
		return
	}
	p.require(p.policy.Bound(0) >= 0, "in no time at most %d units can be admitted", p.policy.Bound(0))
	sum := new(big.Int)
	for n := p.past; n.before != nil; n = n.before {
		sum.Add(sum, big.NewInt(p.subject.admitted(n.event.op, n.event.cost, n.event.r)))
		if n.before.before == nil || n.before.event.at < n.event.at { // an interval has all of an instant
			p.within(sum, n.event.at)
		}
	}
}

// within requires that the sum, admitted from an instant to the last event, is within
// the bound of that interval, and of all that are longer.
func (p *point) within(sum *big.Int, from int64) {
	interval := time.Duration(p.past.event.at - from + 1)
	for _, x := range []time.Duration{interval, interval + p.limit.Period, 1000 * interval, math.MaxInt64} {
		bound := p.policy.Bound(max(x, interval)) // math.MaxInt64: more than can be said
		p.require(bound == math.MaxInt64 || sum.Cmp(big.NewInt(bound)) <= 0, "%v units are admitted from %s to %s, and in an interval of %v at most %d can be",
			sum, offset(from), offset(p.past.event.at), max(x, interval), bound)
	}
}

// admitted is what an event adds to the units that a bound is stated for. A refund
// counts for its cost where Paid, in whole units, need not tell all that was regained:
// of units that count in part, and in parts of a stack that are not the least.
func (s *Subject) admitted(op op, cost int64, r algo.Result) int64 {
	switch {
	case op != refund:
		return cost
	case s.Windowed || s.Composed:
		return -cost
	}
	return r.Paid
}

// patient takes, under a few of the small limits, all that there is at the first
// instant, and again whenever there is more.
func (h *hunt) patient() *finding {
	for i := 0; i < 72; i += 7 {
		limit := algo.Per(int64(i%6)+1, time.Duration(i/6)+1)
		policy := h.policy(limit)
		if policy == nil {
			continue
		}
		n, now := root(), epoch.UnixNano()
		for range 100 {
			r := h.look(n, policy, now)
			n = h.try(n, policy, event{limit: limit, op: step, at: now, cost: max(1, r.Available+r.Refilled)})
			now = after(now, h.look(n, policy, now).NextRefill)
			if f := h.examine(n, limit, policy, n.latest); f != nil {
				return f
			}
		}
	}
	return nil
}

// greediest plays every adversary of the small limits: from each state reached,
// the most that can be had in 1, 2, 3 ... consecutive instants by any steps, and by
// giving back a unit before them.
func (h *hunt) greediest() *finding {
	for i := 0; i < 72; i += h.effort.limits {
		limit := algo.Per(int64(i%6)+1, time.Duration(i/6)+1)
		policy := h.policy(limit)
		if policy == nil {
			continue
		}
		g := game{subject: &h.subject, policy: policy, limit: limit, best: map[string][]int64{}, calls: h.effort.game}
		g.end = epoch.UnixNano() + 3*int64(limit.Period) + 1
		for start := epoch.UnixNano(); start < epoch.UnixNano()+int64(limit.Period); start++ {
			f := h.guarded(root(), limit, start, func() *finding { return h.play(&g, root(), start) })
			if f != nil {
				return f
			}
		}
	}
	return nil
}

// A game remembers, for a state and an instant, the most that can be had in 0, 1,
// 2 ... instants from there. Once its calls are used up it plays on as one who only
// waits, which is never too much.
type game struct {
	subject *Subject
	policy  algo.Policy
	limit   algo.Limit
	end     int64
	best    map[string][]int64
	calls   int
}

func (g *game) most(state []byte, now int64) []int64 {
	if now == g.end {
		return []int64{0}
	}
	var room [128]byte
	id := append(binary.BigEndian.AppendUint64(room[:0], uint64(now)), state...)
	if known, ok := g.best[string(id)]; ok {
		return known
	}
	best := append([]int64{0}, g.most(state, now+1)...) // to wait
	if next, back := g.back(state, now+1); back != 0 {
		for i, had := range g.most(next, now+1) {
			if i > 0 {
				best[i+1] = max(best[i+1], had+back)
			}
		}
	}
	g.moves(state, now, func(cost int64, next []byte) {
		for i, had := range g.most(next, now) {
			if i > 0 {
				best[i] = max(best[i], cost+min(had, math.MaxInt64-cost))
			}
		}
	})
	g.best[string(id)] = best
	return best
}

func (g *game) moves(state []byte, now int64, move func(cost int64, next []byte)) {
	if g.calls <= 0 {
		return
	}
	g.calls--
	r, err := g.policy.Peek(state, instant(now), 1)
	if err != nil {
		return
	}
	for _, cost := range takes(r.Available + r.Refilled) {
		if g.calls--; g.calls < 0 {
			return
		}
		next, r, err := g.policy.Step(nil, state, instant(now), cost)
		if err == nil && r.Allowed && !bytes.Equal(next, state) {
			move(cost, next)
		}
	}
}

// back gives a unit back, and is what that adds to what is had. It is the first move
// of an instant, never of the interval: what is taken there is not to be had again.
func (g *game) back(state []byte, now int64) (next []byte, units int64) {
	if g.calls--; g.calls < 0 || now == g.end {
		return nil, 0
	}
	next, r, err := g.policy.Refund(nil, state, instant(now), 1)
	if err != nil || bytes.Equal(next, state) {
		return nil, 0
	}
	return next, g.subject.admitted(refund, 1, r)
}

// takes are the costs worth asking for where so much is left: all of them where
// there are few, else such as lead to few. One who takes a large burst unit by unit
// would be at it for ever.
func takes(left int64) []int64 {
	if left > 2*small {
		return []int64{left, left - 1, left / 2}
	}
	all := make([]int64, max(left+1, 1))
	for i := range all {
		all[i] = int64(i) + 1
	}
	return all
}

// play follows the first steps to every state within a period and looks for a
// game won from there.
func (h *hunt) play(g *game, n *node, now int64) *finding {
	if n.depth > 0 || now == epoch.UnixNano() {
		for x, had := range g.most(n.state, now) {
			if bound := g.policy.Bound(time.Duration(x)); x > 0 && had > bound {
				n = h.won(g, n, now, x, had)
				text := fmt.Sprintf("%d units are admitted in %d consecutive instants from %s on, where at most %d can be", had, x, offset(now), bound)
				return &finding{n, g.limit, n.latest, fault{text: text}}
			}
		}
	}
	var f *finding
	if n.depth < 2 {
		g.moves(n.state, now, func(cost int64, next []byte) {
			e := event{limit: g.limit, op: step, at: now, cost: cost}
			for at := now; f == nil && at < now+int64(g.limit.Period); at++ {
				f = h.play(g, n.then(e, next), at)
			}
		})
	}
	return f
}

// won is n and the game that has had units in x instants from now on.
func (h *hunt) won(g *game, n *node, now int64, x int, had int64) *node {
	g.calls = math.MaxInt // most of it is known
	state, t := n.state, now
	for x > 0 && had > 0 {
		if wait := g.most(state, t+1); x > 1 && wait[x-1] == had {
			t, x = t+1, x-1
			continue
		}
		if next, back := g.back(state, t+1); x > 1 && back != 0 && g.most(next, t+1)[x-1]+back == had {
			t, x = t+1, x-1
			n = h.try(n, g.policy, event{limit: g.limit, op: refund, at: t, cost: 1})
			state, had = next, had-back
			continue
		}
		moved := false
		g.moves(state, t, func(cost int64, next []byte) {
			if !moved && g.most(next, t)[x]+cost == had {
				n = h.try(n, g.policy, event{limit: g.limit, op: step, at: t, cost: cost})
				state, had, moved = next, had-cost, true
			}
		})
		if !moved {
			break
		}
	}
	return n
}
