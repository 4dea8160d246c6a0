package algotest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

// RunHolds tests each law of held units in a subtest. New must return an [algo.Holder], and HeldAtMost is required. A Holder also
// obeys the laws of Run.
//
//	1 HeldUnitsAreInUse      at most Count units are held at any time
//	2 ReleaseFreesOwnUnits   a second or late release frees no units of another slot
//	3 RenewalChargesNothing  a renewal in time is allowed, and a late one is denied
//	4 UnitsReturn            units that are neither released nor renewed return after HeldAtMost
//
// Two units are in different slots if they were taken at least HeldAtMost - Period apart, and at different instants.
func RunHolds(t *testing.T, s Subject) {
	t.Helper()
	for i, law := range holdLaws {
		t.Run(law.name, func(t *testing.T) {
			t.Helper()
			law.test(t, s, i+1)
		})
	}
}

// test reports where the subject breaks the law.
func (l holdLaw) test(t testing.TB, s Subject, number int) {
	t.Helper()
	if s.New == nil || s.HeldAtMost == nil {
		t.Errorf("algotest: Subject.New and Subject.HeldAtMost are required")
		return
	}
	random, tried, refused := sample.New(seed, uint64(number)), 0, 0
	for ; tried < defaultEffort().holds; tried++ {
		limit := algo.Per(sample.OneOf(random, random.Int64N(6)+1, random.UpTo(algo.MaxCount)), micros(random.UpTo(algo.MaxPeriod.Microseconds())))
		policy, err := s.New(limit)
		if err != nil {
			refused++
			continue
		}
		holder, ok := policy.(algo.Holder)
		if !ok {
			t.Errorf("algotest: %s: New returns a %T, which is not an algo.Holder", s.Name, policy)
			return
		}
		k := &heldKey{law: l, limit: limit, policy: holder, longest: s.HeldAtMost(limit).Microseconds()}
		if v := k.search(random); v != nil {
			t.Errorf("algotest: law %d of held units, %s, is broken by %s (seed %d):\n    %s\n\n%s", number, l.name, s.Name, seed, l.sentence, k.report(shrink(v, k.replay)))
			return
		}
	}
	if refused > tried-(tried+15)/16 {
		t.Errorf("algotest: New of %s refuses %d of %d limits", s.Name, refused, tried)
	}
}

// A heldKey is a state, and what the holders of its units know.
type heldKey struct {
	law     holdLaw
	limit   algo.Limit
	policy  algo.Holder
	longest int64 // HeldAtMost, in us
	state   []byte
	holds   []hold
}

// A hold is the units of one holder. A renewal ends it and begins another one.
type hold struct {
	units int64
	taken int64
	seen  int64 // latest time of the state since then
	gone  bool  // released or renewed
	lost  bool  // the holder was told that its units have returned
}

func (k *heldKey) sum(includes func(*hold) bool) (units int64) {
	for i := range k.holds {
		if includes(&k.holds[i]) {
			units += k.holds[i].units
		}
	}
	return units
}

// isHeld reports whether the holder may rely on its units. If the state was ever later than their Period, they may have returned.
func (k *heldKey) isHeld(h *hold, now int64) bool {
	return !h.gone && !h.lost && max(now, h.seen) < h.taken+k.limit.Period.Microseconds()
}

// mayCount reports whether the units may be in use.
func (k *heldKey) mayCount(h *hold, now int64) bool {
	return !h.gone && max(now, h.seen) < h.taken+k.longest
}

// hasReturned reports whether there are certainly no units of the slot of h.
func (k *heldKey) hasReturned(h *hold, now int64) bool {
	return now >= h.taken+k.longest || !k.mayCount(h, now) && !k.hasNeighbour(h, now)
}

// hasNeighbour reports whether units of other holds may be in the slot of h.
func (k *heldKey) hasNeighbour(h *hold, now int64) bool {
	for i := range k.holds {
		if other := &k.holds[i]; other != h && k.mayCount(other, now) && !k.areApart(h, other) {
			return true
		}
	}
	return false
}

// areApart reports whether the units of two holds are in different slots.
func (k *heldKey) areApart(a, b *hold) bool {
	return max(a.taken-b.taken, b.taken-a.taken) >= max(1, k.longest-k.limit.Period.Microseconds())
}

func (k *heldKey) require(ok bool, format string, args ...any) {
	if !ok {
		panic(failure(fmt.Sprintf(format, args...)))
	}
}

func (k *heldKey) peek(state []byte, now int64) algo.Result {
	r, err := k.policy.Peek(state, instant(now), 1)
	k.require(err == nil, "Peek refuses the policy's own state %x: %v", state, err)
	return r
}

// call makes an operation on new units, or on the units of a hold.
func (k *heldKey) call(op op, hold int, state []byte, now, cost int64) ([]byte, algo.Result) {
	policy := algo.Policy(k.policy)
	if hold > 0 {
		policy = k.policy.Held(instant(k.holds[hold-1].taken))
	}
	next, r, err := op.Apply(policy, nil, state, instant(now), cost)
	k.require(err == nil, "%v refuses the policy's own state %x: %v", op, state, err)
	return next, r
}

// do makes an event and returns it with its result. It reports false if the holder has no units to release or renew, or cannot
// know which units it would get.
func (k *heldKey) do(e event) (event, bool) {
	if e.hold > 0 {
		if len(k.holds) == 0 {
			return e, false
		}
		e.hold = (e.hold-1)%len(k.holds) + 1
		h := &k.holds[e.hold-1]
		if h.gone || h.lost || !k.isHeld(h, e.at) && k.hasNeighbour(h, 0) {
			return e, false
		}
		e.cost = h.units
	}
	next, r := k.call(e.op, e.hold, k.state, e.at, e.cost)
	e.r = r
	now := e.at + r.Skew.Microseconds()
	if e.hold > 0 {
		h := &k.holds[e.hold-1]
		h.gone = r.Allowed && (e.op == step || r.Paid < 0)
		h.lost = !h.gone
	}
	if e.op == step && r.Allowed {
		k.holds = append(k.holds, hold{units: e.cost, taken: now, seen: now})
	}
	if !bytes.Equal(next, k.state) {
		for i := range k.holds {
			k.holds[i].seen = max(k.holds[i].seen, now)
		}
	}
	k.state = next
	return e, true
}

// search checks the law several times after each event of a random history.
func (k *heldKey) search(random sample.Source) *violation {
	const length = 14
	now, period, width := random.UpTo(algo.MaxInstant), k.limit.Period.Microseconds(), k.longest-k.limit.Period.Microseconds()
	var history []event
	for range length {
		r := k.peek(k.state, now)
		e := event{limit: k.limit, op: step, at: now, cost: min(random.Cost(r), sample.OneOf(random, 1, r.Limit))}
		if random.Chance(50) {
			e.op, e.hold = sample.OneOf(random, step, refund), random.IntN(length)+1
		}
		history = append(history, e)
		for _, at := range []int64{now, now + period - 1, now + k.longest, random.Time(now, r, k.limit.Period, true)} {
			if v := k.replay(history, k.limit, min(at, algo.MaxInstant)); v != nil {
				return v
			}
		}
		if now = random.Time(now, r, k.limit.Period, true); random.Chance(30) {
			now += sample.OneOf(random, width-1, width, period-1, period, k.longest-1, k.longest)
		}
		now = min(now, algo.MaxInstant)
	}
	return nil
}

// replay makes the events on a new key, and checks the law.
func (k *heldKey) replay(history []event, limit algo.Limit, now int64) *violation {
	if now < 0 || slices.ContainsFunc(history, func(e event) bool { return e.at < 0 }) {
		return nil
	}
	k.state, k.holds = nil, nil
	text := caught(func() {
		for _, e := range history {
			k.do(e)
		}
		k.law.check(k, now)
	})
	if text == "" {
		return nil
	}
	return &violation{history: history, limit: limit, now: now, text: text}
}

func (k *heldKey) report(v *violation) string {
	var text strings.Builder
	fmt.Fprintf(&text, "    %s\n\n    policy %v\n", v.text, k.policy)
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	k.state, k.holds = nil, nil
	for _, e := range v.history {
		e, ok := k.do(e)
		if !ok {
			continue
		}
		what := fmt.Sprintf("take %d", e.cost)
		if e.hold > 0 {
			what = fmt.Sprintf("%s hold %d", map[op]string{step: "renew", refund: "release"}[e.op], e.hold)
		}
		if e.op == step && e.r.Allowed {
			what += fmt.Sprintf(", as hold %d", len(k.holds))
		}
		fmt.Fprintf(w, "    %s\t%s\t-> %s\tleft %d\treset %s\n", offset(e.at), what, e.verdict(), e.r.Remaining, formatWait(e.r.ResetAfter))
	}
	_ = w.Flush() // a strings.Builder returns no error
	fmt.Fprintf(&text, "    # checked at %s, state %x", offset(v.now), k.state)
	return text.String()
}
