package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
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
	// FailFast is for how long the store may fail before decisions do not wait for it
	// any more: when it has failed for that long, whenever it was asked, one decision at
	// a time still tries, for its Budget, and the others fail at once with
	// [ErrUnavailable], but for those that what is remembered answers. One answer ends
	// that, be it of one server of several. 0 means that each tries for its Budget.
	FailFast time.Duration
	// Remember is about how many keys to remember the last seen state of, those
	// that were written last, up to 1<<24; 0 means DefaultRemember, and a negative number
	// none.
	Remember int
	// MaxAge is for how long a remembered state may answer without a look at
	// the store, by Clock; 0 means for as long as the answer itself holds.
	MaxAge time.Duration
	// NoCombining makes each decision a write of its own. Else those that meet on
	// a key are written together.
	NoCombining bool
	// NoSharing makes each write a round trip of its own, also on a [Batcher].
	NoSharing bool
	// InFlight is how many round trips may be under way at once where they are
	// shared; 0 means what a [Parallel] store says, else DefaultInFlight. It means nothing
	// to a store that must be called by the goroutines that ask; see [Parallel].
	InFlight int
	// Queue is how many decisions may wait for those before them; one more is
	// refused with [ErrOverloaded]. 0 means DefaultQueue.
	Queue int
}

// DefaultInFlight is how many shared round trips an [Engine] has under way at once.
const DefaultInFlight = 2

// DefaultQueue is how many decisions may wait in an [Engine].
const DefaultQueue = 1 << 16

// Decide decides on the states of some keys. It is pure but for what it
// captures, and may run again, on other states and at a later time: only its
// last run counts. It may run on another goroutine than the caller's, and, after
// the caller's context has ended, even when [Engine.Do] has returned. A panic of
// it is the panic of its caller alone.
//
// found[i] is the state of the i-th key, nil when it is absent and only then;
// it must be neither modified nor retained. next has the same length, every
// element the zero [Change]; Decide sets those that it wants, and the engine
// owns their states afterwards.
//
// Of keys that it does not change, an answer is lasting if it holds whatever was
// stored since found was current: a denial is (what others did in the meantime
// cannot have made room at that instant); a look is not, nor is a refund to a key
// that has nothing to give back, nor an error about a state. Only a lasting answer
// rests on what is remembered.
type Decide func(now time.Time, found [][]byte, next []Change) (lasting bool, err error)

// How tells how an engine came to an answer.
type How struct {
	Attempts int  // runs of Decide, also that on what is remembered
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
//
// # Combining
//
// While a write is on its way, decisions on its keys wait. When it lands they are
// all made, in the order of their arrival, each on the states that the one before
// it left, and written as one: callers of a hot key share a round trip, and each
// gets the very answer that it would have got alone, in that order. Decisions that
// share keys, also by way of a third, are written together, all or nothing. A
// decision that nothing is in the way of does not wait at all.
//
// A caller whose context ends, or whose time is over, leaves; what the others asked
// goes on. If its decision was on its way by then, the caller is told
// [ErrOutcomeUnknown], because it may have been stored.
//
// # Sharing
//
// On a [Batcher], writes that are independent and ready at the same moment share one
// round trip. No more than InFlight of these are under way, and each takes an even part of
// the keys that are ready or under way, or 16 if that is less, so that they take turns.
// Each write lands on its own: a conflict or error of one is none of the others. A
// store that is a [Series] is told which round trips follow each other at once.
//
// Between calls an engine keeps no goroutine: one runs while decisions wait. Waiting calls
// share a timer, so an engine must not be used in a bubble of testing/synctest and outside
// it at once.
type Engine struct {
	store   Store
	batcher Batcher // of store, if round trips are shared
	dear    bool    // round trips are, to a Parallel store
	options EngineOptions
	seen    *sightings
	queue   queue
	outage  outage
	rivals  atomic.Int64 // when others were last seen to want what several callers want, in ns since 1970
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
	p, dear := store.(Parallel)
	switch {
	case dear && p.InFlight() == 0:
		o.NoCombining, o.NoSharing = true, true
	case o.InFlight > 0:
	case dear && p.InFlight() > 0:
		o.InFlight = p.InFlight()
	default:
		o.InFlight = DefaultInFlight
	}
	if o.Queue <= 0 {
		o.Queue = DefaultQueue
	}
	e := &Engine{store: store, dear: dear, options: o, seen: newSightings(o.Remember)}
	e.queue.init(&e.options)
	e.outage.patience, e.outage.budget = max(o.FailFast, 0), o.Budget
	if _, timed := store.(Timed); !timed && !o.NoSharing { // a batch has no time of its own
		e.batcher, _ = store.(Batcher)
	}
	if e.batcher == nil {
		e.queue.inFlight, e.queue.shared = math.MaxInt, 1
	}
	return e
}

// Do commits what decide makes of the states of keys, all of it or nothing.
// Keys must differ.
//
// It returns an error of decide as it is, nothing being stored. Else it returns
//   - [ErrKey] or [ErrDuplicateKey] when keys are such as cannot be stored,
//   - [ErrContended] when swaps kept losing until the time was over: nothing was stored,
//   - [ErrUnavailable] when the store could not be reached for as long, or has not been for
//     FailFast, or the budget was spent before it was this decision's turn: nothing was stored,
//   - [ErrOverloaded] when too many wait already: nothing was stored,
//   - [ErrOutcomeUnknown] when the reply to a write was lost and could not be made up for,
//   - the context's error when it ended, or the store's when it cannot help to try again.
//     A context that is ended by a budget, with ErrUnavailable for its cause, counts as one.
func (e *Engine) Do(ctx context.Context, keys []string, decide Decide) (How, error) {
	return e.do(ctx, keys, decide, true)
}

// Commit is [Engine.Do] for a decision that what is remembered of its keys does not
// answer, as [Engine.Glance] has shown: it is not tried on that again.
func (e *Engine) Commit(ctx context.Context, keys []string, decide Decide) (How, error) {
	return e.do(ctx, keys, decide, false)
}

func (e *Engine) do(ctx context.Context, keys []string, decide Decide, remembering bool) (How, error) {
	how, err := e.try(ctx, keys, decide, remembering)
	if err != nil && isTimeout(err) && !endedByCaller(ctx) {
		err = fmt.Errorf("%w: no answer in the time that there was: %w", ErrUnavailable, err)
	}
	return how, err
}

// isTimeout reports whether no more is known of err, which is the engine's own, than
// that the time was over.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && errors.Is(err, ErrNotApplied) &&
		!errors.Is(err, ErrContended) && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrOutcomeUnknown)
}

// endedByCaller reports whether the context has ended, and not by a budget, which leaves
// ErrUnavailable as the cause.
func endedByCaller(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrUnavailable)
}

func (e *Engine) try(ctx context.Context, keys []string, decide Decide, remembering bool) (How, error) {
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
	return e.commit(ctx, keys, decide, remembering)
}

// commit is try on a store that is not in place.
func (e *Engine) commit(ctx context.Context, keys []string, decide Decide, remembering bool) (How, error) {
	if err := CheckKeys(keys); err != nil {
		return How{}, err
	}
	c := newCall(keys, decide)
	g := &c.own
	if remembering && e.answersFromMemory(g) {
		return c.answer()
	}
	tries, err := e.outage.enter()
	if err != nil {
		return How{}, err
	}
	if tries {
		defer e.outage.leave()
	}
	c.deadline = time.Now().Add(e.options.Budget)
	if e.options.NoCombining && e.batcher == nil {
		return e.alone(ctx, g)
	}
	return e.queued(ctx, c, g)
}

// answersFromMemory makes the decision of g on what is remembered of its keys, and
// reports whether it stands.
func (e *Engine) answersFromMemory(g *group) bool {
	e.recall(g)
	g.fold(e.options.Clock())
	return g.stands()
}

// Glance is the state that is remembered of a key, if any is and now is within MaxAge of
// when it was seen; nil for a key that was absent. A denial that follows from it is what Do
// would answer, for a fraction of the effort; nothing else is. The state must be neither
// modified nor retained. Nothing is seen on an [InPlace] store.
func (e *Engine) Glance(key []byte, now time.Time) (state []byte, seen bool) {
	s := e.seen.glance(key)
	if s == nil || e.options.MaxAge != 0 && !s.isWithin(e.options.MaxAge, now) {
		return nil, false
	}
	return s.record.state(), true
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

// recall fills in what is remembered of the keys of g that it does not know yet.
func (e *Engine) recall(g *group) {
	for i := range g.holds {
		if h := &g.holds[i]; !h.known {
			h.record, h.seen = e.seen.recall(h.key, e.options.MaxAge, e.options.Clock)
			h.known = true
		}
	}
}
