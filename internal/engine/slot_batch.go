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
	members  []*Request     // for each driver.Request the first of the equal requests that it stands for; Request.same leads to the others
	users    map[string]int // if a reply was lost: how many requests of that round trip used each key

	uses    []driver.Use
	places  map[string]int // the index of each key in the batch
	latest  []int          // for each key the last request of the batch that uses only this key; -1 if there is none
	states  [][]byte
	unknown []int // keys whose state is not known, because an evaluator has panicked
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
	return u.Program != nil && u.Cost > 0 && u.Cost < algo.MaxExact && e.server.Runs(u.Program)
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
		err := s.batch.Err
		if err == nil {
			err = s.check()
		}
		if b.queue.record(began, err); err != nil {
			s.fail(err)
		} else {
			s.replay(e, clockReading{s.batch.At, began, received})
		}
	}
}

// fail records that the batch has failed. If the reply was lost, the same batch is sent again.
func (s *slotBatch) fail(err error) {
	if !errors.Is(err, storage.ErrNotApplied) && !s.isLost() {
		s.users = make(map[string]int)
		for _, r := range s.requests {
			r.slotBatch = s
			for _, key := range r.Keys {
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
	bySlot := func(slot string) *slotBatch {
		for _, s := range slots {
			if s.slot == slot && !s.isLost() {
				return s
			}
		}
		return &slotBatch{slot: slot, batch: driver.Batch{Version: storage.NewVersion(), Margin: ttlMargin}}
	}
	for _, r := range b.requests {
		s := r.slotBatch
		if s == nil {
			_, slot, err := b.queue.engine.place(r.Keys)
			if err != nil {
				r.finish(err)
				continue
			}
			s = bySlot(slot)
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
	s.members, s.uses, s.latest, s.places = make([]*Request, 0, n), make([]driver.Use, 0, n), make([]int, 0, n), nil
	for _, r := range s.requests {
		s.add(r)
	}
}

// add adds a request to the batch.
func (s *slotBatch) add(r *Request) {
	b, start := &s.batch, len(s.uses)
	r.same, r.last = nil, r
	for i := range r.Uses {
		s.uses = append(s.uses, s.use(&r.Uses[i], s.place(r.Keys[i]), s.isLost() && r.givesBack()))
	}
	uses := s.uses[start:len(s.uses):len(s.uses)]
	if len(uses) == 1 && uses[0].Op == driver.Allow {
		at := &s.latest[uses[0].Key]
		if *at >= 0 && b.Requests[*at].Uses[0] == uses[0] {
			b.Requests[*at].Times++
			first := s.members[*at]
			first.last.same, first.last = r, r
			return
		}
		*at = len(b.Requests)
	}
	b.Requests = append(b.Requests, driver.Request{Uses: uses, Times: 1})
	s.members = append(s.members, r)
}

// place returns the index of a key in the batch.
func (s *slotBatch) place(key string) int {
	b := &s.batch
	if s.places == nil && len(s.requests) > 1 { // the keys of one request differ
		s.places = make(map[string]int, batchKeys)
	}
	at, known := s.places[key]
	if !known {
		at = len(b.Keys)
		b.Keys, s.latest = append(b.Keys, key), append(s.latest, -1)
		if s.places != nil {
			s.places[key] = at
		}
	}
	return at
}

// use translates a use. If onlyVersion is true, it becomes a Peek that reads the version of the record.
func (s *slotBatch) use(u *Use, key int, onlyVersion bool) driver.Use {
	switch {
	case onlyVersion:
		return driver.Use{Key: key, Op: driver.Peek, Shadow: u.Shadow}
	case u.Op == driver.Peek || u.Op == driver.Reset:
		return driver.Use{Key: key, Op: u.Op, Shadow: u.Shadow}
	}
	return driver.Use{Key: key, Program: s.program(u.Program), Op: u.Op, Shadow: u.Shadow, Cost: u.Cost}
}

// program returns the index of a program in the batch.
func (s *slotBatch) program(program *algo.Program) int {
	b := &s.batch
	for i, other := range b.Programs {
		if other == program || sameProgram(other, program) {
			return i
		}
	}
	b.Programs = append(b.Programs, program)
	return len(b.Programs) - 1
}

func sameProgram(a, b *algo.Program) bool {
	return a.Name == b.Name && a.Lua == b.Lua && slices.Equal(a.Args, b.Args) &&
		slices.EqualFunc(a.Parts, b.Parts, func(a, b algo.Program) bool { return sameProgram(&a, &b) })
}

// check returns an error if the reply has the wrong number of records or errors.
func (s *slotBatch) check() error {
	b := &s.batch
	if len(b.Found) != len(b.Keys) || b.KeyErr != nil && len(b.KeyErr) != len(b.Keys) {
		return fmt.Errorf("engine: the store answered with %d records and %d errors to %d keys", len(b.Found), len(b.KeyErr), len(b.Keys))
	}
	return nil
}

// replay evaluates the requests on the states that the server found, in the order of the batch. It
// compares the outcomes with the server's. Requests that it does not settle must be decided again.
func (s *slotBatch) replay(e *Engine, clock clockReading) {
	b := &s.batch
	s.states, s.unknown = s.states[:0], nil
	for i := range b.Found {
		s.states = append(s.states, stateOf(&b.Found[i]))
	}
	for _, r := range s.requests {
		r.slotBatch = nil
	}
	var differs error
	for i := range b.Requests {
		request, first := &b.Requests[i], s.members[i]
		switch err := s.keyErr(request); {
		case differs != nil:
			first.finishAll(differs)
		case s.isLost() && first.givesBack() && (err != nil || request.Applied != driver.Stored):
			first.finish(unknown(first.lastErr)) // it may have been stored, and must not be repeated
		case errors.Is(err, storage.ErrNotApplied):
			for r := first; r != nil; r = r.same {
				r.fail(err)
			}
		case err != nil && !first.writes():
			first.fail(storage.NotApplied(err))
		case err != nil:
			if errors.Is(err, storage.ErrTorn) && request.Applied >= 0 { // other keys of it may have been written
				differs = s.evaluate(e, request, first, clock)
			}
			first.finishAll(unknown(err))
		case slices.ContainsFunc(request.Uses, func(u driver.Use) bool { return slices.Contains(s.unknown, u.Key) }):
			first.finishAll(unknown(errPanicked))
		case request.Applied == driver.Declined:
			first.finishAll(errDeclined)
		case request.Applied == driver.Stored:
			s.stored(request, first)
		default:
			differs = s.evaluate(e, request, first, clock)
		}
	}
}

// errDeclined is the outcome of a request that the server declined: it must be decided by swaps.
var errDeclined = errors.New("engine: the program declined the request")

// keyErr returns the error of the first key of a request that could not be read or written.
func (s *slotBatch) keyErr(request *driver.Request) error {
	if s.batch.KeyErr == nil {
		return nil
	}
	for _, u := range request.Uses {
		if err := s.batch.KeyErr[u.Key]; err != nil {
			return err
		}
	}
	return nil
}

// evaluate evaluates the equal requests that a request of the batch stands for, and updates
// s.states. It returns an error if the server has decided otherwise.
func (s *slotBatch) evaluate(e *Engine, request *driver.Request, first *Request, clock clockReading) error {
	total, panicked := 0, false
	for r := first; r != nil; r = r.same {
		s.find(request, r)
		applied, err := r.evaluate(clock.at)
		if r.finish(err); err != nil {
			applied = driver.Damaged
		}
		total += applied
		panicked = panicked || r.panicked != nil
		for i, u := range request.Uses {
			switch change := &r.changes[i]; change.Verb {
			case driver.Put:
				s.states[u.Key] = change.State
			case driver.Delete:
				s.states[u.Key] = nil
			}
		}
	}
	switch total = max(total, driver.Damaged); {
	case panicked:
		for _, u := range request.Uses {
			s.unknown = append(s.unknown, u.Key)
		}
		first.finishAll(unknown(errPanicked))
	case total != request.Applied:
		err := fmt.Errorf("%w: the server applied %d steps, Go %d", storage.ErrProgram, request.Applied, total)
		first.finishAll(err)
		return err
	default:
		e.updateCache(first.last, clock)
	}
	return nil
}

// find sets the states that a request is evaluated on.
func (s *slotBatch) find(request *driver.Request, r *Request) {
	for i, u := range request.Uses {
		r.states[i] = s.states[u.Key]
	}
}

// stored settles requests that an earlier round trip of the batch may have stored. A request was
// certainly stored if a record that no other request used has the version of the batch. The others
// are decided again, unless they must not be repeated.
func (s *slotBatch) stored(request *driver.Request, first *Request) {
	proven := false
	for _, u := range request.Uses {
		proven = proven || s.batch.Found[u.Key].Version == s.batch.Version && s.users[s.batch.Keys[u.Key]] == 1
	}
	for r := first; r != nil; r = r.same {
		switch s.find(request, r); {
		case proven:
			r.finish(r.confirm(s.batch.At))
		case r.givesBack():
			r.finish(unknown(r.lastErr))
		}
	}
}
