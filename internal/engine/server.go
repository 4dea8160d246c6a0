package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// part is the requests of a trip that one batch of the server decides.
type part struct {
	slot     string
	requests []*Request
	batch    storage.Batch
	members  []*Request     // the first request that each request of the batch stands for; the others follow by Request.same
	users    map[string]int // if a reply was lost: how many requests have used each key then

	uses    []storage.Use
	places  map[string]int // of the keys in the batch
	latest  []int          // for each key the last request of the batch that has this one use
	states  [][]byte
	unknown []int // keys whose state is not known, because an evaluator has panicked
}

func (p *part) isLost() bool { return p.users != nil }

// ttlMargin is how much longer than its meaning a record is kept, in case the clock of the server steps forward,
// or another server with another clock takes over.
const ttlMargin = 10 * time.Second

// runs reports whether the server can do what a use asks.
func (e *Engine) runs(u *Use) bool {
	if u.Op == storage.Peek || u.Op == storage.Reset {
		return true
	}
	return u.Program != nil && u.Cost > 0 && u.Cost < algo.MaxExact && e.server.Runs(u.Program)
}

// runOnServer makes one round trip, in which the server decides.
func (t *trip) runOnServer(ctx context.Context) {
	e := t.queue.engine
	parts := t.partition()
	batches := make([]*storage.Batch, len(parts))
	for i, p := range parts {
		p.build(e)
		batches[i] = &p.batch
	}
	began := time.Now()
	e.server.Run(ctx, batches...)
	received := time.Now()
	for _, p := range parts {
		err := p.batch.Err
		if err == nil {
			err = p.check()
		}
		if t.queue.note(began, err); err != nil {
			p.fail(err)
		} else {
			p.replay(e, seen{p.batch.At, began, received})
		}
	}
}

// fail takes in that the batch has failed. If the reply was lost, the same batch is sent again.
func (p *part) fail(err error) {
	if !errors.Is(err, storage.ErrNotApplied) && !p.isLost() {
		p.users = make(map[string]int)
		for _, r := range p.requests {
			r.part = p
			for _, key := range r.Keys {
				p.users[key]++
			}
		}
	}
	for _, r := range p.requests {
		r.fail(err)
	}
}

// partition divides the requests into parts: by the slots of their keys, and those whose reply was
// lost as they were.
func (t *trip) partition() (parts []*part) {
	bySlot := func(slot string) *part {
		for _, p := range parts {
			if p.slot == slot && !p.isLost() {
				return p
			}
		}
		return &part{slot: slot, batch: storage.Batch{Version: storage.NewVersion(), Margin: ttlMargin}}
	}
	for _, r := range t.requests {
		p := r.part
		if p == nil {
			_, slot, err := t.queue.engine.place(r.Keys)
			if err != nil {
				r.finish(err)
				continue
			}
			p = bySlot(slot)
		}
		if !slices.Contains(parts, p) {
			parts, p.requests = append(parts, p), p.requests[:0]
		}
		p.requests = append(p.requests, r)
	}
	return parts
}

// build makes the batch of the requests. Equal requests of one key are sent as one, with a count.
func (p *part) build(e *Engine) {
	b, n := &p.batch, len(p.requests)
	*b = storage.Batch{Version: b.Version, Margin: b.Margin, Keys: make([]string, 0, n), Requests: make([]storage.Request, 0, n)}
	if e.options.Clock != nil {
		b.Now = e.options.Clock()
	}
	p.members, p.uses, p.latest, p.places = make([]*Request, 0, n), make([]storage.Use, 0, n), make([]int, 0, n), nil
	for _, r := range p.requests {
		p.add(r)
	}
}

// add adds a request to the batch.
func (p *part) add(r *Request) {
	b, start := &p.batch, len(p.uses)
	r.same, r.last = nil, r
	for i := range r.Uses {
		p.uses = append(p.uses, p.use(&r.Uses[i], p.place(r.Keys[i]), p.isLost() && r.givesBack()))
	}
	uses := p.uses[start:len(p.uses):len(p.uses)]
	if len(uses) == 1 && uses[0].Op == storage.Allow {
		at := &p.latest[uses[0].Key]
		if *at >= 0 && b.Requests[*at].Uses[0] == uses[0] {
			b.Requests[*at].Times++
			first := p.members[*at]
			first.last.same, first.last = r, r
			return
		}
		*at = len(b.Requests)
	}
	b.Requests = append(b.Requests, storage.Request{Uses: uses, Times: 1})
	p.members = append(p.members, r)
}

// place returns the index of a key in the batch.
func (p *part) place(key string) int {
	b := &p.batch
	if p.places == nil && len(p.requests) > 1 { // the keys of one request differ
		p.places = make(map[string]int, batchKeys)
	}
	at, known := p.places[key]
	if !known {
		at = len(b.Keys)
		b.Keys, p.latest = append(b.Keys, key), append(p.latest, -1)
		if p.places != nil {
			p.places[key] = at
		}
	}
	return at
}

// use translates a use. One that only looks for the version of the batch is a Peek.
func (p *part) use(u *Use, key int, look bool) storage.Use {
	switch {
	case look:
		return storage.Use{Key: key, Op: storage.Peek, Shadow: u.Shadow}
	case u.Op == storage.Peek || u.Op == storage.Reset:
		return storage.Use{Key: key, Op: u.Op, Shadow: u.Shadow}
	}
	return storage.Use{Key: key, Program: p.program(u.Program), Op: u.Op, Shadow: u.Shadow, Cost: u.Cost}
}

// program returns the index of a program in the batch.
func (p *part) program(program *algo.Program) int {
	b := &p.batch
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

// check reports a reply that is not one to the batch.
func (p *part) check() error {
	b := &p.batch
	if len(b.Found) != len(b.Keys) || b.KeyErr != nil && len(b.KeyErr) != len(b.Keys) {
		return fmt.Errorf("engine: the store answered with %d records and %d errors to %d keys", len(b.Found), len(b.KeyErr), len(b.Keys))
	}
	return nil
}

// replay evaluates the requests on the states that the server found, in the order of the batch, and
// compares the outcomes with the server's. Requests that it does not settle must be decided again.
func (p *part) replay(e *Engine, s seen) {
	b := &p.batch
	p.states, p.unknown = p.states[:0], nil
	for i := range b.Found {
		p.states = append(p.states, stateOf(&b.Found[i]))
	}
	for _, r := range p.requests {
		r.part = nil
	}
	var differs error
	for i := range b.Requests {
		request, first := &b.Requests[i], p.members[i]
		switch err := p.keyErr(request); {
		case differs != nil:
			first.finishAll(differs)
		case p.isLost() && first.givesBack() && (err != nil || request.Applied != storage.Stored):
			first.finish(unknown(first.trouble)) // it may have been stored, and must not be repeated
		case errors.Is(err, storage.ErrNotApplied):
			for r := first; r != nil; r = r.same {
				r.fail(err)
			}
		case err != nil && !first.writes():
			first.fail(storage.NotApplied(err))
		case err != nil:
			if errors.Is(err, storage.ErrTorn) && request.Applied >= 0 { // other keys of it may have been written
				differs = p.evaluate(e, request, first, s)
			}
			first.finishAll(unknown(err))
		case slices.ContainsFunc(request.Uses, func(u storage.Use) bool { return slices.Contains(p.unknown, u.Key) }):
			first.finishAll(unknown(errPanicked))
		case request.Applied == storage.Declined:
			first.finishAll(errDeclined)
		case request.Applied == storage.Stored:
			p.stored(request, first)
		default:
			differs = p.evaluate(e, request, first, s)
		}
	}
}

// errDeclined is the outcome of a request that the server declined: it must be decided by swaps.
var errDeclined = errors.New("engine: the program has declined")

// keyErr returns the error of a request that has a key which could not be read or written.
func (p *part) keyErr(request *storage.Request) error {
	if p.batch.KeyErr == nil {
		return nil
	}
	for _, u := range request.Uses {
		if err := p.batch.KeyErr[u.Key]; err != nil {
			return err
		}
	}
	return nil
}

// evaluate evaluates the equal requests that a request of the batch stands for, and moves states on. It returns
// an error if the server has decided otherwise.
func (p *part) evaluate(e *Engine, request *storage.Request, first *Request, s seen) error {
	total, panicked := 0, false
	for r := first; r != nil; r = r.same {
		p.find(request, r)
		applied, err := r.evaluate(s.at)
		if r.finish(err); err != nil {
			applied = storage.Damaged
		}
		total += applied
		panicked = panicked || r.panicked != nil
		for i, u := range request.Uses {
			switch change := &r.changes[i]; {
			case err != nil:
			case change.Verb == storage.Put:
				p.states[u.Key] = change.State
			case change.Verb == storage.Delete:
				p.states[u.Key] = nil
			}
		}
	}
	switch total = max(total, storage.Damaged); {
	case panicked:
		for _, u := range request.Uses {
			p.unknown = append(p.unknown, u.Key)
		}
		first.finishAll(unknown(errPanicked))
	case total != request.Applied:
		err := fmt.Errorf("%w: the server applied %d steps, Go %d", storage.ErrProgram, request.Applied, total)
		first.finishAll(err)
		return err
	default:
		e.updateCache(first.last, s)
	}
	return nil
}

// find sets the states that a request is evaluated on.
func (p *part) find(request *storage.Request, r *Request) {
	for i, u := range request.Uses {
		r.states[i] = p.states[u.Key]
	}
}

// stored settles requests that were stored by an earlier try of the batch, as far as that is
// proven: a request was allowed if a key that no other request used carries the version. The others
// are decided again, if they can be.
func (p *part) stored(request *storage.Request, first *Request) {
	proven := false
	for _, u := range request.Uses {
		proven = proven || p.batch.Found[u.Key].Version == p.batch.Version && p.users[p.batch.Keys[u.Key]] == 1
	}
	for r := first; r != nil; r = r.same {
		switch p.find(request, r); {
		case proven:
			r.finish(r.confirm(p.batch.At))
		case r.givesBack():
			r.finish(unknown(r.trouble))
		}
	}
}
