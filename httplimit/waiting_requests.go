package httplimit

import (
	"cmp"
	"slices"
	"time"
)

// waitingRequests are the requests of a hostQueue that wait for a slot. The lock of the queue guards
// them.
type waitingRequests struct {
	fresh       []*pendingRequest                  // never denied by the Limiter; by arrival
	denied      map[*denialGroup][]*pendingRequest // by arrival
	firsts      []*pendingRequest                  // of each group in denied, if not in line; by arrival
	preferFresh bool                               // the Limiter denied a request again
}

// next returns the request that gets the next slot, or nil. It passes over all denied requests behind
// the first of their group, and over this first one if it is in line and not p.
func (w *waitingRequests) next(p *pendingRequest) (found *pendingRequest) {
	if len(w.fresh) > 0 {
		found = w.fresh[0]
		if w.preferFresh {
			return found
		}
	}
	if len(w.firsts) > 0 && (found == nil || w.firsts[0].arrival < found.arrival) {
		found = w.firsts[0]
	}
	if p != nil && p.inLine && w.denied[p.group][0] == p && (found == nil || p.arrival < found.arrival) {
		found = p
	}
	return found
}

// takeTurn calls denialGroup.takeTurn.
func (w *waitingRequests) takeTurn(p *pendingRequest, now time.Time, ready bool) (begins bool) {
	w.update(p.group, func() { begins = p.group.takeTurn(p, now, ready) })
	return begins
}

// update changes a group, and then corrects firsts. So next takes the same time for any number of groups.
func (w *waitingRequests) update(g *denialGroup, change func()) {
	before := w.first(g)
	change()
	after := w.first(g)
	if before == after {
		return
	}
	if before != nil {
		w.firsts = remove(w.firsts, before)
	}
	if after != nil {
		w.firsts = insert(w.firsts, after)
	}
}

// first returns the first request of the group, or nil if it is in line or there is none.
func (w *waitingRequests) first(g *denialGroup) *pendingRequest {
	if list := w.denied[g]; len(list) > 0 && !list[0].inLine {
		return list[0]
	}
	return nil
}

func (w *waitingRequests) wakeAll() {
	for _, p := range w.fresh {
		p.wake()
	}
	for _, list := range w.denied {
		for _, p := range list {
			p.wake()
		}
	}
}

// insert keeps the order of arrival. So a request that had a slot and was not sent goes before
// all requests that arrived later.
func (w *waitingRequests) insert(p *pendingRequest) {
	if p.group == nil {
		w.fresh = insert(w.fresh, p)
		return
	}
	if w.denied == nil {
		w.denied = make(map[*denialGroup][]*pendingRequest)
	}
	w.update(p.group, func() { w.denied[p.group] = insert(w.denied[p.group], p) })
}

// remove also wakes the next request, because p may have been the next one.
func (w *waitingRequests) remove(p *pendingRequest) {
	switch {
	case p.group == nil:
		w.fresh = remove(w.fresh, p)
	case len(w.denied[p.group]) == 1:
		w.update(p.group, func() { delete(w.denied, p.group) })
	default:
		w.update(p.group, func() { w.denied[p.group] = remove(w.denied[p.group], p) })
	}
	if p.inLine {
		p.group.withdraw(p)
	}
	w.next(nil).wake()
}

// insert adds p to a list by arrival.
func insert(list []*pendingRequest, p *pendingRequest) []*pendingRequest {
	at, _ := slices.BinarySearchFunc(list, p, byArrival)
	return slices.Insert(list, at, p)
}

// remove removes p from a list by arrival.
func remove(list []*pendingRequest, p *pendingRequest) []*pendingRequest {
	at, _ := slices.BinarySearchFunc(list, p, byArrival)
	return slices.Delete(list, at, at+1)
}

func byArrival(a, b *pendingRequest) int { return cmp.Compare(a.arrival, b.arrival) }
