package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultBudget is how long an [Engine] tries to commit a decision when neither
// its options nor the caller's context say.
const DefaultBudget = time.Second

// DefaultRemember is how many keys an [Engine] remembers the last seen state
// of.
const DefaultRemember = 1 << 16

// EngineOptions configure an [Engine]. The zero value is ready.
type EngineOptions struct {
	// Clock tells the time of each attempt; nil is time.Now. It may step back.
	Clock func() time.Time
	// Budget is the longest that one decision may take, retries and pauses
	// included, if the caller's context does not end sooner; 0 means
	// DefaultBudget.
	Budget time.Duration
	// Remember is how many keys to remember the last seen state of; 0 means
	// DefaultRemember, and a negative number none.
	Remember int
	// MaxAge is for how long a remembered state may answer without a look at
	// the store; 0 means for as long as the answer itself holds.
	MaxAge time.Duration
}

// Decide decides on the states of some keys. It is pure but for what it
// captures, and may run again, on other states and at a later time: only its
// last run counts.
//
// found[i] is the state of the i-th key, nil when it is absent and only then;
// it must be neither modified nor retained. next has the same length, every
// element the zero [Change]; Decide sets those that it wants, and the engine
// owns their states afterwards.
//
// An answer that changes nothing is lasting if it holds whatever was stored
// since found was current: a denial is (what others did in the meantime cannot
// have made room at that instant), a look is not. Only lasting answers are
// given from memory.
type Decide func(now time.Time, found [][]byte, next []Change) (lasting bool, err error)

// How tells how an engine came to an answer.
type How struct {
	Attempts int  // runs of Decide, at least 1
	Memory   bool // answered from remembered states, without I/O
}

// An Engine turns pure decisions into committed swaps on one store. It may be
// used from any number of goroutines.
//
// A decision starts from the last state seen of each key, else as if the key
// were absent: nothing is read before the first attempt, because a conflict
// tells what is stored. So a decision takes one round trip, or none if it is
// lasting and rests on states that were seen in the store; each time another
// writer gets in between it takes one more. On an [InPlace] store it takes a
// lock.
type Engine struct {
	store   Store
	options EngineOptions
	memory  *memory
}

// NewEngine makes an engine on store, which it neither pings nor closes.
func NewEngine(store Store, o EngineOptions) *Engine {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Budget <= 0 {
		o.Budget = DefaultBudget
	}
	if o.Remember == 0 {
		o.Remember = DefaultRemember
	}
	return &Engine{store: store, options: o, memory: newMemory(o.Remember)}
}

// Do commits what decide makes of the states of keys, all of it or nothing.
// Keys must differ.
//
// It returns an error of decide as it is, nothing being stored. Else it returns
//   - [ErrContended] when swaps kept losing until the time was over: nothing was stored,
//   - [ErrUnavailable] when the store could not be reached for as long: nothing was stored,
//   - [ErrOutcomeUnknown] when the reply to a write was lost and could not be made up for,
//   - the context's error when it ended, or the store's when it cannot help to try again.
func (e *Engine) Do(ctx context.Context, keys []string, decide Decide) (How, error) {
	if err := ctx.Err(); err != nil {
		return How{}, NotApplied(err)
	}
	if len(keys) == 0 {
		_, err := decide(e.options.Clock(), nil, nil)
		return How{Attempts: 1}, err
	}
	if in, ok := e.store.(InPlace); ok {
		return e.inPlace(ctx, in, keys, decide)
	}
	ctx, cancel := context.WithTimeout(ctx, e.options.Budget)
	defer cancel()
	f := newFlight(e, keys, decide)
	err := f.fly(ctx)
	return f.how, err
}

// inPlace lets decide run under the store's lock.
func (e *Engine) inPlace(ctx context.Context, in InPlace, keys []string, decide Decide) (How, error) {
	d := decider{now: e.options.Clock(), decide: decide}
	err := in.Update(ctx, d.now, keys, &d)
	return d.how, err
}

type decider struct {
	now    time.Time
	decide Decide
	how    How
}

func (d *decider) Decide(found [][]byte, next []Change) error {
	d.how.Attempts++
	_, err := d.decide(d.now, found, next)
	return err
}

// flight is one decision on its way to the store.
type flight struct {
	engine *Engine
	keys   []string
	decide Decide
	how    How

	found  []Record
	states [][]byte
	next   []Change
	seen   bool // every record in found was seen in the store, lately enough
	fresh  bool // found was read by this flight
	now    time.Time
	last   error // why the latest attempt failed; nil for a conflict
	pause  backoff
}

func newFlight(e *Engine, keys []string, decide Decide) *flight {
	f := &flight{
		engine: e,
		keys:   keys,
		decide: decide,
		found:  make([]Record, len(keys)),
		states: make([][]byte, len(keys)),
		next:   make([]Change, len(keys)),
	}
	f.seen = e.memory.recall(keys, f.found, e.options.MaxAge, e.options.Clock)
	return f
}

// fly tries until the decision stands, or cannot.
func (f *flight) fly(ctx context.Context) error {
	for {
		lasting, err := f.run()
		if err != nil {
			return err
		}
		swaps := f.swaps()
		if len(swaps) == 0 && (f.fresh || f.seen && lasting) {
			f.how.Memory = !f.fresh
			return nil
		}
		done, err := f.attempt(ctx, swaps)
		if done || err != nil {
			return err
		}
		if err := f.pause.wait(ctx); err != nil {
			return f.exhausted(err)
		}
	}
}

// run lets decide decide, on what was found and at the present time.
func (f *flight) run() (lasting bool, err error) {
	f.how.Attempts++
	f.now = f.engine.options.Clock()
	for i := range f.found {
		f.states[i] = nil
		if f.found[i].Version != 0 {
			f.states[i] = f.found[i].State
			if f.states[i] == nil {
				f.states[i] = []byte{}
			}
		}
	}
	clear(f.next)
	return f.decide(f.now, f.states, f.next)
}

// swaps is what changes, under one new version.
func (f *flight) swaps() []Swap {
	var swaps []Swap
	version := NewVersion()
	for i, c := range f.next {
		s := Swap{Key: f.keys[i], Old: f.found[i].Version}
		switch c.Verb {
		case Keep:
			continue
		case Put:
			s.New, s.TTL = Record{version, c.State}, c.TTL
		}
		swaps = append(swaps, s)
	}
	return swaps
}

// attempt is one round trip: the swaps, or a look if there are none. It is not
// done, without an error, when the decision must be made again.
func (f *flight) attempt(ctx context.Context, swaps []Swap) (done bool, err error) {
	if len(swaps) == 0 {
		return false, f.tolerate(f.load(ctx))
	}
	current, swapped, err := f.engine.swap(ctx, f.now, swaps)
	switch {
	case err != nil && errors.Is(err, ErrNotApplied):
		f.fresh = false
		return false, f.tolerate(err)
	case err != nil:
		return f.resolve(ctx, swaps, err)
	case swapped:
		f.engine.memory.keep(f.now, swaps)
		return true, nil
	}
	f.conflict(swaps, current)
	return false, nil
}

// conflict takes over what is stored.
func (f *flight) conflict(swaps []Swap, current []Record) {
	f.last, f.fresh = nil, len(swaps) == len(f.keys)
	for i, s := range swaps {
		for k, key := range f.keys {
			if key == s.Key {
				f.found[k] = current[i]
			}
		}
		f.engine.memory.put(s.Key, f.now, current[i])
	}
}

// load looks at what is stored.
func (f *flight) load(ctx context.Context) error {
	records, err := f.engine.load(ctx, f.now, f.keys)
	if err != nil {
		return err
	}
	f.last, f.fresh = nil, true
	f.found = records
	for i, key := range f.keys {
		f.engine.memory.put(key, f.now, records[i])
	}
	f.pause.skip()
	return nil
}

// tolerate remembers an error that trying again may help, and returns any
// other.
func (f *flight) tolerate(err error) error {
	if err != nil && !errors.Is(err, ErrContended) && !errors.Is(err, ErrUnavailable) {
		return err
	}
	f.last = err
	return nil
}

// resolve finds out what became of swaps whose reply was lost. The same swaps
// are sent again until the store answers them, or a look shows their version:
// as long as what they replace is still there they have not been applied, and
// sending them twice cannot apply them twice.
func (f *flight) resolve(ctx context.Context, swaps []Swap, lost error) (done bool, err error) {
	f.engine.memory.forget(f.keys)
	for f.pause.wait(ctx) == nil {
		current, swapped, err := f.engine.swap(ctx, f.now, swaps)
		switch {
		case err != nil:
			lost = err
			continue
		case swapped || applied(swaps, current):
			f.engine.memory.keep(f.now, swaps)
			return true, nil
		}
		return false, fmt.Errorf("%w: %w", ErrOutcomeUnknown, lost)
	}
	return false, fmt.Errorf("%w: %w", ErrOutcomeUnknown, lost)
}

// applied reports whether what is stored shows a write of swaps. Of a group of
// writes all were made in one instant, so one shows them all.
func applied(swaps []Swap, current []Record) bool {
	for i, s := range swaps {
		if s.New.Version != 0 && current[i].Version == s.New.Version {
			return true
		}
	}
	return onlyDeletes(swaps) && allAbsent(current)
}

func onlyDeletes(swaps []Swap) bool {
	for _, s := range swaps {
		if s.New.Version != 0 {
			return false
		}
	}
	return true
}

func allAbsent(records []Record) bool {
	for _, r := range records {
		if r.Version != 0 {
			return false
		}
	}
	return true
}

// exhausted says what used up the time.
func (f *flight) exhausted(ctxErr error) error {
	switch {
	case f.last == nil:
		return fmt.Errorf("%w: %d attempts: %w", ErrContended, f.how.Attempts, ctxErr)
	case errors.Is(f.last, ErrNotApplied):
		return f.last
	}
	return NotApplied(f.last)
}

func (e *Engine) load(ctx context.Context, now time.Time, keys []string) ([]Record, error) {
	if timed, ok := e.store.(Timed); ok {
		return timed.LoadAt(ctx, now, keys...)
	}
	return e.store.Load(ctx, keys...)
}

func (e *Engine) swap(ctx context.Context, now time.Time, swaps []Swap) ([]Record, bool, error) {
	if timed, ok := e.store.(Timed); ok {
		return timed.CompareAndSwapAt(ctx, now, swaps...)
	}
	return e.store.CompareAndSwap(ctx, swaps...)
}
