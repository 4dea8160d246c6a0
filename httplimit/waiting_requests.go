package httplimit

import (
	"cmp"
	"slices"
)

// waitingRequests are the requests of a hostQueue that wait for a slot. The lock of the queue guards
// them.
type waitingRequests struct {
	fresh       []*pendingRequest                  // never denied by the Limiter; by arrival
	denied      map[*denialGroup][]*pendingRequest // by arrival
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
	for _, list := range w.denied {
		if first := list[0]; (!first.inLine || first == p) && (found == nil || first.arrival < found.arrival) {
			found = first
		}
	}
	return found
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
	w.denied[p.group] = insert(w.denied[p.group], p)
}

// remove also wakes the next request, because p may have been the next one.
func (w *waitingRequests) remove(p *pendingRequest) {
	switch {
	case p.group == nil:
		w.fresh = remove(w.fresh, p)
	case len(w.denied[p.group]) == 1:
		delete(w.denied, p.group)
	default:
		w.denied[p.group] = remove(w.denied[p.group], p)
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
