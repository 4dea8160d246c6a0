package algotest

import (
	"bytes"

	"github.com/sluice-go/sluice/algo"
)

// A holdLaw is a promise about units that are held and given back. The check panics with a failure.
type holdLaw struct {
	name     string
	sentence string
	check    func(k *heldKey, now int64)
}

var holdLaws = []holdLaw{
	{
		name: "HeldUnitsAreInUse", check: heldUnitsAreInUse,
		sentence: "held units are in use, so at most Count units are held at any time, even if clocks step back",
	},
	{
		name: "ReleaseFreesOwnUnits", check: releaseFreesOwnUnits,
		sentence: "a release frees the units of its holder; a second release, or one after they have returned, frees no units of another slot",
	},
	{
		name: "RenewalChargesNothing", check: renewalChargesNothing,
		sentence: "a renewal holds the units for another Period, and charges nothing; if they have returned, it is denied with a " +
			"RetryAfter of Never, and changes nothing",
	},
	{
		name: "UnitsReturn", check: unitsReturn,
		sentence: "units that are neither released nor renewed return at the latest after HeldAtMost, and ResetAfter says so",
	},
}

func heldUnitsAreInUse(k *heldKey, now int64) {
	r := k.peek(k.state, now)
	held := k.sum(func(h *hold) bool { return k.isHeld(h, now) })
	k.require(held <= r.Limit, "%d units of %d are held at %s", held, r.Limit, offset(now))
	k.require(held <= r.Limit-r.Remaining, "%d units are held at %s, but only %d are in use", held, offset(now), r.Limit-r.Remaining)
}

func releaseFreesOwnUnits(k *heldKey, now int64) {
	for i := range k.holds {
		h := &k.holds[i]
		before := k.peek(k.state, now)
		next, r := k.call(refund, i+1, k.state, now, h.units)
		if k.isHeld(h, now) {
			k.require(r.Paid == -h.units && k.peek(next, now).Remaining == before.Remaining+h.units,
				"a release of the %d units of hold %d at %s has Paid %d and leaves %d of %d units", h.units, i+1, offset(now), r.Paid, r.Remaining, r.Limit)
		}
		others := k.sum(func(other *hold) bool { return k.isHeld(other, now) && k.areApart(h, other) })
		used := r.Limit - k.peek(next, now).Remaining
		k.require(used >= others, "a release of hold %d at %s leaves %d units in use, but %d units of other slots are held", i+1, offset(now), used, others)
		if k.hasReturned(h, now) {
			k.require(r.Paid == 0 && bytes.Equal(next, k.state), "the units of hold %d have returned, but a release at %s has Paid %d and changes the state to %x",
				i+1, offset(now), r.Paid, next)
		}
	}
}

func renewalChargesNothing(k *heldKey, now int64) {
	for i := range k.holds {
		h := &k.holds[i]
		before := k.peek(k.state, now)
		next, r := k.call(step, i+1, k.state, now, h.units)
		k.require(r.Paid == 0 && r.Remaining == before.Remaining && k.peek(next, now).Remaining == before.Remaining,
			"a renewal of hold %d at %s has Paid %d and leaves %d units; before it %d are left", i+1, offset(now), r.Paid, r.Remaining, before.Remaining)
		switch {
		case r.Allowed:
			k.require(!k.hasReturned(h, now), "the units of hold %d have returned, but a renewal at %s is allowed", i+1, offset(now))
			end := min(now+r.Skew.Microseconds()+k.limit.Period.Microseconds(), algo.MaxInstant+1)
			used := r.Limit - k.peek(next, end-1).Remaining
			k.require(used >= h.units, "hold %d has %d units and is renewed at %s, but only %d are in use until %s", i+1, h.units, offset(now), used, offset(end))
		default:
			k.require(!k.isHeld(h, now), "the %d units of hold %d are held, but a renewal at %s is denied", h.units, i+1, offset(now))
			k.require(r.RetryAfter == algo.Never, "a renewal of hold %d at %s is denied with RetryAfter %v", i+1, offset(now), r.RetryAfter)
			k.require(bytes.Equal(next, k.state), "a renewal of hold %d at %s is denied, but changes the state to %x", i+1, offset(now), next)
		}
	}
}

func unitsReturn(k *heldKey, now int64) {
	r, end := k.peek(k.state, now), now
	counted := k.sum(func(h *hold) bool {
		if !k.mayCount(h, now) {
			return false
		}
		end = max(end, h.taken+k.longest)
		return true
	})
	k.require(r.Limit-r.Remaining <= counted, "%d units are in use at %s, but at most %d have not returned", r.Limit-r.Remaining, offset(now), counted)
	k.require(after(now, r.ResetAfter) <= end, "ResetAfter is %v at %s, but all units return before %s", r.ResetAfter, offset(now), offset(end))
}
