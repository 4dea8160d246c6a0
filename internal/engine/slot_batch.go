package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// slotBatch is the requests of a batch whose keys are in one slot of the server. The server decides
// them in one driver.Batch. A server without slots has one slotBatch.
type slotBatch struct {
	slot     string
	requests []*Request
	batch    driver.Batch
	members  [][]*Request   // for each driver.Request the equal requests that it stands for
	users    map[string]int // if a reply was lost: how many requests of that round trip used each key

	uses   []driver.Use
	latest []int            // for each key the last driver.Request that uses only this key; -1 if there is none
	found  []storage.Record // after the requests that are evaluated already
}

func (s *slotBatch) isLost() bool { return s.users != nil }

// ttlMargin is added to the TTL of records. It covers a server's clock that steps forward, and
// a failover to a server with another clock.
const ttlMargin = 10 * time.Second

// runs reports whether the server can apply a use.
func (e *Engine) runs(u *Use) bool {
	if u.Op == driver.Peek || u.Op == driver.Reset {
		return true
	}
	return u.Program != nil && u.Cost > 0 && e.server.Runs(u.Program)
}

// runOnServer makes one round trip, in which the server decides.
func (b *batch) runOnServer(ctx context.Context) {
	e := b.queue.engine
	slots := b.partition()
	batches := make([]*driver.Batch, len(slots))
	for i, s := range slots {
		s.build(e)
		batches[i] = &s.batch
	}
	began := time.Now()
	e.server.Run(ctx, batches...)
	received := time.Now()
	for _, s := range slots {
		reply := &s.batch
		if reply.Err == nil && (len(reply.Found) != len(reply.Keys) || reply.KeyErr != nil && len(reply.KeyErr) != len(reply.Keys)) {
			reply.Err = fmt.Errorf("engine: the store answered with %d records and %d errors to %d keys", len(reply.Found), len(reply.KeyErr), len(reply.Keys))
		}
		if b.queue.record(began, reply.Err); reply.Err != nil {
			s.fail(reply.Err)
		} else {
			s.replay(e, clockReading{reply.At, began, received})
		}
	}
}

// fail records that the batch has failed. If the reply was lost, the same batch is sent again.
func (s *slotBatch) fail(err error) {
	if !errors.Is(err, storage.ErrNotApplied) && !s.isLost() {
		s.users = make(map[string]int)
		for _, r := range s.requests {
			r.slotBatch = s
			for _, key := range r.keys {
				s.users[key]++
			}
		}
	}
	for _, r := range s.requests {
		r.fail(err)
	}
}

// partition divides the requests by the slots of their keys. Requests whose reply was lost stay in
// the slotBatch that they were in.
func (b *batch) partition() (slots []*slotBatch) {
	for _, r := range b.requests {
		s := r.slotBatch
		if s == nil {
			_, slot, err := b.queue.engine.place(r.keys)
			if err != nil {
				r.finish(err)
				continue
			}
			i := slices.IndexFunc(slots, func(s *slotBatch) bool { return s.slot == slot && !s.isLost() })
			if i >= 0 {
				s = slots[i]
			} else {
				s = &slotBatch{slot: slot, batch: driver.Batch{Version: storage.NewVersion(), Margin: ttlMargin}}
			}
		}
		if !slices.Contains(slots, s) {
			slots, s.requests = append(slots, s), s.requests[:0]
		}
		s.requests = append(s.requests, r)
	}
	return slots
}

// build makes the batch of the requests. Equal requests of one key are sent as one, with a count.
func (s *slotBatch) build(e *Engine) {
	b, n := &s.batch, len(s.requests)
	*b = driver.Batch{Version: b.Version, Margin: b.Margin, Keys: make([]string, 0, n), Requests: make([]driver.Request, 0, n)}
	if e.options.Clock != nil {
		b.Now = e.options.Clock()
	}
	s.members, s.uses, s.latest = make([][]*Request, 0, n), make([]driver.Use, 0, n), make([]int, 0, n)
	places := make(map[string]int, n)
	for i, r := range s.requests {
		uses := s.addUses(r, places)
		if len(uses) == 1 && uses[0].Op == driver.Allow {
			latest := &s.latest[uses[0].Key]
			if *latest >= 0 && b.Requests[*latest].Uses[0] == uses[0] {
				b.Requests[*latest].Times++
				s.members[*latest] = append(s.members[*latest], r)
				continue
			}
			*latest = len(b.Requests)
		}
		b.Requests = append(b.Requests, driver.Request{Uses: uses, Times: 1})
		s.members = append(s.members, s.requests[i:i+1:i+1])
	}
}

// addUses adds the uses of a request and their keys to the batch. places has the index of each key
// in the batch. If a reply was lost and the request gives units back, they become Peeks, which read
// the versions of the records.
func (s *slotBatch) addUses(r *Request, places map[string]int) []driver.Use {
	b, start, onlyVersion := &s.batch, len(s.uses), s.isLost() && r.givesBack()
	for i, key := range r.keys {
		at, known := places[key]
		if !known {
			at = len(b.Keys)
			b.Keys, s.latest, places[key] = append(b.Keys, key), append(s.latest, -1), at
		}
		u := &r.Uses[i]
		use := driver.Use{Key: at, Op: u.Op, Shadow: u.Shadow, Cost: min(u.Cost, algo.MaxLevel)}
		if onlyVersion {
			use.Op = driver.Peek
		} else if u.Op != driver.Peek && u.Op != driver.Reset {
			use.Program = s.program(u.Program)
		}
		s.uses = append(s.uses, use)
	}
	return s.uses[start:len(s.uses):len(s.uses)]
}

// program returns the index of a program in the batch.
func (s *slotBatch) program(program *algo.Program) int {
	b := &s.batch
	i := slices.IndexFunc(b.Programs, func(p *algo.Program) bool { return p == program || sameProgram(p, program) })
	if i < 0 {
		i = len(b.Programs)
		b.Programs = append(b.Programs, program)
	}
	return i
}

func sameProgram(a, b *algo.Program) bool {
	return a.Name == b.Name && a.Lua == b.Lua && slices.Equal(a.Args, b.Args) &&
		slices.EqualFunc(a.Parts, b.Parts, func(a, b algo.Program) bool { return sameProgram(&a, &b) })
}

// replay evaluates the requests on the states that the server found, in the order of the batch. It
// compares the outcomes with the server's. Requests that it does not settle must be decided again.
func (s *slotBatch) replay(e *Engine, clock clockReading) {
	b := &s.batch
	s.found = append(s.found[:0], b.Found...)
	for _, r := range s.requests {
		r.slotBatch = nil
	}
	var differs error
	for i, members := range s.members {
		request, first := &b.Requests[i], members[0]
		err := s.keyErr(request)
		if err != nil && !first.writes() {
			err = storage.NotApplied(err)
		}
		switch {
		case differs != nil:
			finish(members, differs)
		case s.isLost() && first.givesBack() && (err != nil || request.Applied != driver.AlreadyStored):
			finish(members, unknown(first.lastErr)) // it may have been stored, and must not be repeated
		case errors.Is(err, storage.ErrNotApplied):
			for _, r := range members {
				r.fail(err)
			}
		case err != nil:
			if errors.Is(err, storage.ErrPartialWrite) && request.Applied >= 0 { // other keys of it may have been written
				differs = s.evaluate(e, request, members, clock)
			}
			finish(members, unknown(err))
		case request.Applied == driver.Declined:
			finish(members, errDeclined)
		case request.Applied == driver.AlreadyStored:
			s.stored(request, members)
		default:
			differs = s.evaluate(e, request, members, clock)
		}
	}
}

// errDeclined is the outcome of a request that must be decided by swaps: the server declined it, or the request is denied and
// its policy changes a state, for example to count denials.
var errDeclined = errors.New("engine: the program declined the request")

func finish(requests []*Request, err error) {
	for _, r := range requests {
		r.finish(err)
	}
}

// keyErr returns the error of the first key of a request that could not be read or written.
func (s *slotBatch) keyErr(request *driver.Request) error {
	for _, u := range request.Uses {
		if errs := s.batch.KeyErr; errs != nil && errs[u.Key] != nil {
			return errs[u.Key]
		}
	}
	return nil
}

// evaluate evaluates the members of a request of the batch, and updates s.found. It returns an
// error if the server has decided otherwise.
func (s *slotBatch) evaluate(e *Engine, request *driver.Request, members []*Request, clock clockReading) error {
	total, panicked := 0, false
	for _, r := range members {
		s.find(request, r)
		applied, err := r.evaluate(clock.at)
		if r.finish(err); err != nil && r.writes() { // the server runs no step for a Peek
			applied = driver.Damaged
		}
		total += applied
		panicked = panicked || r.panicked != nil
		if _, denied := r.Evaluator.Denied(); denied && err == nil && r.changesState() { // the server has stored nothing
			r.finish(errDeclined)
			continue
		}
		r.now = clock.at
		for i, u := range request.Uses {
			switch change := &r.Items[i].Next; {
			case keepsLonger(&r.Items[i]): // the server has not stored that
			case change.Verb == driver.Put:
				s.found[u.Key] = storage.Record{Version: s.batch.Version, State: change.State, TTL: change.TTL}
			case change.Verb == driver.Delete:
				s.found[u.Key] = storage.Record{}
			}
		}
	}
	switch total = max(total, driver.Damaged); {
	case panicked: // the states after the request are not known
		b := &s.batch
		if b.KeyErr == nil {
			b.KeyErr = make([]error, len(b.Keys))
		}
		for _, u := range request.Uses {
			b.KeyErr[u.Key] = errPanicked
		}
		finish(members, unknown(errPanicked))
	case total != request.Applied:
		err := fmt.Errorf("%w: the server applied %d steps, Go %d", storage.ErrProgram, request.Applied, total)
		finish(members, err)
		return err
	default:
		e.updateCache(members[len(members)-1], clock)
	}
	return nil
}

// find sets the records that a request is evaluated on.
func (s *slotBatch) find(request *driver.Request, r *Request) {
	for i, u := range request.Uses {
		r.Items[i].Found = s.found[u.Key]
	}
}

// stored settles requests that an earlier round trip of the batch may have stored. A request was
// certainly stored if a record that no other request used has the version of the batch. The others
// are decided again, unless they must not be repeated.
func (s *slotBatch) stored(request *driver.Request, members []*Request) {
	proven := slices.ContainsFunc(request.Uses, func(u driver.Use) bool {
		return s.batch.Found[u.Key].Version == s.batch.Version && s.users[s.batch.Keys[u.Key]] == 1
	})
	for _, r := range members {
		switch s.find(request, r); {
		case proven:
			r.finish(r.confirm(s.batch.At))
		case r.givesBack():
			r.finish(unknown(r.lastErr))
		}
	}
}
