package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/internal/engine/denials"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// slotBatch has the attempts of a round trip whose keys are in one slot of the server. The server decides
// them in one driver.Batch. A server without slots has one slotBatch.
type slotBatch struct {
	attempts []*attempt
	batch    driver.Batch
	members  [][]*attempt // for each driver.Request the attempts of the equal requests that it stands for
}

// ttlMargin is added to the TTL of records. It covers a server's clock that steps forward, and
// a failover to a server with another clock.
const ttlMargin = 10 * time.Second

// runOnServer makes one round trip, in which the server decides.
func (q *queue) runOnServer(ctx context.Context, attempts []*attempt) {
	e := q.engine
	slots := partition(attempts)
	batches := make([]*driver.Batch, len(slots))
	for i := range slots {
		slots[i].build(e)
		batches[i] = &slots[i].batch
	}
	began := time.Now()
	e.server.Run(ctx, batches...)
	received := time.Now()
	for i := range slots {
		s, reply := &slots[i], batches[i]
		if reply.Err == nil && (len(reply.Found) != len(reply.Keys) || reply.KeyErr != nil && len(reply.KeyErr) != len(reply.Keys)) {
			reply.Err = fmt.Errorf("engine: the store answered with %d records and %d errors to %d keys", len(reply.Found), len(reply.KeyErr), len(reply.Keys))
		}
		wrote := slices.ContainsFunc(reply.Requests, func(r driver.Request) bool { return r.Applied > 0 })
		if q.record(began, reply.Err, wrote); reply.Err == nil {
			s.replay(q, denials.Clock{At: reply.At, Sent: began, Received: received})
			continue
		}
		for _, a := range s.attempts {
			a.err = reply.Err
		}
	}
}

// partition sorts attempts by the slots of their keys, and divides them.
func partition(attempts []*attempt) (slots []slotBatch) {
	slices.SortStableFunc(attempts, func(a, b *attempt) int { return strings.Compare(a.slot, b.slot) })
	for len(attempts) > 0 {
		n := 1
		for n < len(attempts) && attempts[n].slot == attempts[0].slot {
			n++
		}
		slots = append(slots, slotBatch{attempts: attempts[:n]})
		attempts = attempts[n:]
	}
	return slots
}

// build makes the batch of the requests. Equal requests of one key are sent as one, with a count.
func (s *slotBatch) build(e *Engine) {
	b, n := &s.batch, len(s.attempts)
	*b = driver.Batch{Version: storage.NewVersion(), Margin: ttlMargin, Keys: make([]string, 0, n), Requests: make([]driver.Request, 0, n)}
	if e.options.Clock != nil {
		b.Now = e.options.Clock()
	}
	s.members = make([][]*attempt, 0, n)
	// For each key its index in the batch, and the index of its last request without another key; -1 if there is none.
	places, latest := make(map[string]int, n), make([]int, 0, n)
	for i, a := range s.attempts {
		uses := slices.Clone(a.Uses)
		for i, key := range a.keys {
			at, known := places[key]
			if !known {
				at = len(b.Keys)
				b.Keys, latest, places[key] = append(b.Keys, key), append(latest, -1), at
			}
			uses[i].Key = at
		}
		if len(uses) == 1 && uses[0].Op == driver.Allow && a.Times <= 1 {
			last := &latest[uses[0].Key]
			if *last >= 0 && areEqual(b.Requests[*last].Uses[0], uses[0]) {
				b.Requests[*last].Times++
				s.members[*last] = append(s.members[*last], a)
				continue
			}
			*last = len(b.Requests)
		}
		b.Requests = append(b.Requests, driver.Request{Uses: uses, Times: int(max(a.Times, 1))})
		s.members = append(s.members, s.attempts[i:i+1:i+1])
	}
}

// areEqual reports whether two Allows of one key are equal.
func areEqual(a, b driver.Use) bool {
	return a.Shadow == b.Shadow && a.Cost == b.Cost && a.Program.Equal(b.Program)
}

// replay evaluates the requests on the states that the server found, in order, and compares the outcomes with the server's.
func (s *slotBatch) replay(q *queue, clock denials.Clock) {
	b := &s.batch
	if b.KeyErr == nil {
		b.KeyErr = make([]error, len(b.Keys))
	}
	for i, err := range b.KeyErr {
		if isContention(err) { // also other keys of the same requests
			q.hold(b.Keys[i])
		}
	}
	for i, members := range s.members {
		request := &b.Requests[i]
		failed := slices.IndexFunc(request.Uses, func(u driver.Use) bool { return b.KeyErr[u.Key] != nil })
		switch {
		case failed >= 0:
			err := b.KeyErr[request.Uses[failed].Key]
			for _, a := range members {
				a.err = err
			}
			if !errors.Is(err, storage.ErrNotApplied) { // the server may have written its other keys
				s.fail(request)
			}
		case request.Applied == driver.Declined:
			finish(members, ErrDeclined)
		default:
			s.evaluate(q.engine, request, members, clock)
		}
	}
}

// ErrDeclined is the outcome of a request that swaps must decide: the server or the evaluator declined it, or its denial
// stores something, such as a count of denials, or a longer TTL after the limit was lowered.
var ErrDeclined = errors.New("engine: the program declined the request")

func finish(attempts []*attempt, err error) {
	for _, a := range attempts {
		a.finish(err)
	}
}

// fail fails the later requests of the keys of a request, because the states after it are not known.
func (s *slotBatch) fail(request *driver.Request) {
	for _, u := range request.Uses {
		err := &s.batch.KeyErr[u.Key]
		*err = cmp.Or(*err, errInterrupted)
	}
}

// evaluate evaluates the members of a request of the batch, and updates Found of the batch.
func (s *slotBatch) evaluate(e *Engine, request *driver.Request, members []*attempt, clock denials.Clock) {
	total, found := 0, s.batch.Found
	for _, a := range members {
		for i, u := range request.Uses {
			a.Items[i].Found = found[u.Key]
		}
		applied, err := a.evaluate(clock.At, true)
		if isPanic(err) {
			s.fail(request) // the other members stay interrupted
			return
		}
		if err != nil && err != ErrDeclined {
			applied = driver.Damaged
		}
		total += applied
		if _, denied := a.Evaluator.Denied(); denied && changes(a.Items) { // the server has stored nothing
			a.finish(ErrDeclined)
			continue
		}
		for i, u := range request.Uses {
			switch change := &a.Items[i].Next; change.Verb {
			case driver.Put:
				found[u.Key] = storage.Record{Version: s.batch.Version, State: change.State, TTL: change.TTL}
			case driver.Delete:
				found[u.Key] = storage.Record{}
			}
		}
	}
	if total = max(total, driver.Damaged); total != request.Applied {
		finish(members, fmt.Errorf("%w: the server applied %d steps, Go %d", storage.ErrProgram, request.Applied, total))
		s.fail(request)
		return
	}
	if last := members[len(members)-1]; last.err == nil {
		for i := range last.Items {
			// The server returns a TTL only if the key was denied. With the shortest TTL, the cache keeps asking the server.
			if f := &last.Items[i].Found; f.Version != 0 && f.TTL == 0 {
				f.TTL = 1
			}
		}
		e.updateDenials(last.Request, clock)
	}
}
