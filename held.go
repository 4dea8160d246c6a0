package sluice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// ErrHoldLost is the error of Renew, and the cause of the context in Do, Hold and Keep, if the held units are lost.
var ErrHoldLost = errors.New("sluice: the held units have returned")

// errNotRenewed is the cause if a renewal panics, for instance in an Observer or a policy of a user, or calls runtime.Goexit.
var errNotRenewed = fmt.Errorf("%w: they are not renewed any more, because a renewal has panicked", ErrHoldLost)

// hold says when the units of a use were taken.
type hold struct {
	taken time.Time // by the clock that decided; zero if no units are held
	since time.Time // by the clock of the machine, not later; the zero time is longer ago than any TTL
	lost  bool      // the store does not have them any more
}

func isHolder(p algo.Policy) bool {
	_, ok := p.(algo.Holder)
	return ok
}

// uncancelled returns ctx without its cancellation, but with its deadline. If ctx has ended, it returns ctx. It is for decisions that take
// units which only their caller can give back or use. If a cancellation ended such a call, the units could be lost.
func (l *Limiter[T]) uncancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.engine == nil || ctx.Err() != nil {
		return ctx, doNothing
	}
	deadline, ok := ctx.Deadline()
	if ctx = context.WithoutCancel(ctx); !ok {
		return ctx, doNothing
	}
	return context.WithDeadline(ctx, deadline)
}

// take notes that units are held, if the policy holds units and the i-th result of a decision has charged or renewed them. began is a
// time before the decision.
func (u *use) take(d *Decision, i int, began time.Time) {
	if r := &d.Results[i]; isHolder(u.policy) && (r.Paid > 0 || !u.taken.IsZero()) {
		taken := d.At
		if !r.moved {
			taken = taken.Add(r.Skew)
		}
		u.hold = hold{taken: taken, since: began}
	}
}

// isHeld reports whether the units are held. After their TTL they are not, so a release that comes too late cannot free the units
// of others.
func (u *use) isHeld() bool {
	return !u.lost && time.Since(u.since) < u.policy.Limit().Period
}

// checkHeld returns an error if the units were held and have returned, unless the rule is a shadow.
func (u *use) checkHeld() error {
	switch {
	case u.shadow || u.taken.IsZero() || u.isHeld():
		return nil
	case u.lost:
		return fmt.Errorf("%w: the store has lost the units of rule %q, and they could not be taken again", ErrHoldLost, u.rule)
	}
	return fmt.Errorf("%w: rule %q has a ttl of %v, and the last renewal was %v ago", ErrHoldLost, u.rule, u.policy.Limit().Period, time.Since(u.since))
}

// heldResults is results for the rules whose units are held.
func (r *Reservation[T]) heldResults(results []RuleResult, items []driver.Item) ([]RuleResult, []driver.Item) {
	return r.results(results, items, func(u *use) (int64, bool) { return multiply(u.cost, r.n), u.isHeld() })
}

func (r *Reservation[T]) clearHeld() {
	for i := range r.uses {
		r.uses[i].hold = hold{}
	}
}

// Release gives the held units back, if there are any. Other charges stay. Units that are not released return after their TTL.
//
// After an error, Release can be called again, unless the error wraps [storage.ErrOutcomeUnknown]. If ctx has ended, Release
// fails. After a request use [context.WithoutCancel].
func (r *Reservation[T]) Release(ctx context.Context) error {
	if r == nil {
		return errNothingReserved
	}
	var someResults inlineResults
	var someItems [inlineRules]driver.Item
	results, items := r.heldResults(someResults[:0], someItems[:0])
	if len(items) == 0 {
		return nil
	}
	if r.limiter.options.Observer == nil {
		return r.release(ctx, items, &Decision{Results: results})
	}
	_, err := r.limiter.observed(ctx, driver.Refund, func() (Decision, error) {
		d := Decision{Results: append([]RuleResult(nil), results...)} // with slices.Clone results would escape
		err := r.release(ctx, items, &d)
		return d, err
	})
	return err
}

// release notes the release before the observer is called, because a second one, after a panic, could free the units of others.
func (r *Reservation[T]) release(ctx context.Context, items []driver.Item, d *Decision) error {
	err := r.decideUnobserved(ctx, driver.Refund, items, d)
	if err == nil || errors.Is(err, storage.ErrOutcomeUnknown) {
		r.clearHeld()
	}
	return err
}

// Renew holds the held units, if there are any, for another TTL from now on. It takes units again that the store has lost, as
// after a reset. If the TTL has passed, or too few units are left for that, it renews none, and its error wraps [ErrHoldLost].
// A shadow rule does not cause this error.
//
// If the reply to a renewal is lost, units can be taken twice, also for another reservation. The surplus returns after the TTL.
func (r *Reservation[T]) Renew(ctx context.Context) error {
	if r == nil {
		return errNothingReserved
	}
	if err := r.checkHeld(); err != nil {
		return err
	}
	results, items := r.heldResults(nil, nil)
	if len(items) == 0 {
		return nil
	}
	_, err := r.limiter.observed(ctx, driver.Allow, func() (Decision, error) { return r.renew(ctx, results, items) })
	if err != nil {
		return err
	}
	return r.checkHeld()
}

// renew renews the held units of results. If the store does not have those of a rule, it takes them again.
func (r *Reservation[T]) renew(ctx context.Context, results []RuleResult, items []driver.Item) (d Decision, err error) {
	began, again := time.Now(), slices.Clone(results)
	d.Results = results
	if err = r.decideUnobserved(ctx, driver.Allow, items, &d); err == nil && !d.Allowed {
		for i := range again {
			if !d.Results[i].Allowed {
				again[i].Policy, again[i].held = r.useOf(again[i].Rule).policy, false
			}
		}
		d = Decision{Results: slices.Clone(again)}
		err = r.decideUnobserved(ctx, driver.Allow, items, &d)
	}
	for i := range again {
		u := r.useOf(again[i].Rule)
		switch {
		case err != nil: // otherwise each renewal could take more
			u.lost = !again[i].held && errors.Is(err, storage.ErrOutcomeUnknown)
		case d.Allowed && d.Results[i].Allowed:
			u.take(&d, i, began)
		case !d.Results[i].Allowed || !again[i].held:
			u.lost = true
		}
	}
	return d, err
}

func (r *Reservation[T]) checkHeld() error {
	for i := range r.uses {
		if err := r.uses[i].checkHeld(); err != nil {
			return err
		}
	}
	return nil
}

// decideUnobserved performs an operation on held units where they are: in the store, or in the local limiter of FailLocal.
func (r *Reservation[T]) decideUnobserved(ctx context.Context, op driver.Op, items []driver.Item, d *Decision) (err error) {
	if l := r.limiter; r.Decision.Degraded {
		_, err = decideInMemory(ctx, l.options.Local, nil, op, 0, items, d)
	} else {
		_, err = l.decide(ctx, op, 0, items, d, FailClosed)
	}
	return err
}

// Do calls f if the call is allowed, and holds its units under inflight rules meanwhile, as [Limiter.Hold] does. It releases
// them even if f panics. A denial is not an error, so check Allowed. Other errors are those of Hold or f.
func (l *Limiter[T]) Do(ctx context.Context, in T, f func(context.Context) error) (Decision, error) {
	d, ctx, release, err := l.Hold(ctx, in)
	if !d.Allowed {
		return d, err
	}
	defer release()
	return d, f(ctx)
}

// Hold decides one call like [Limiter.Allow]. If it is allowed, Hold holds and renews its units under inflight rules until
// release is called. If they are lost, it cancels the context held, with a cause that wraps [ErrHoldLost].
//
// Call release when the work has ended. It also cancels held, unless nothing is held: then held is ctx. It is never nil, and
// can be called again. If the store fails then, the units return after their TTL.
//
// If ctx is cancelled, Hold still waits for the decision, to release units that were taken. At the deadline of ctx it fails
// with [storage.ErrOutcomeUnknown], and the units return after their TTL.
func (l *Limiter[T]) Hold(ctx context.Context, in T) (d Decision, held context.Context, release func(), err error) {
	d.Results = new(inlineResults)[:] // Hold is inlined, as Allow is
	held, release, err = l.hold(ctx, in, &d)
	return // with its results named, it would be too long to be inlined
}

// hold writes the decision to d. No pointer into its results escapes.
func (l *Limiter[T]) hold(ctx context.Context, in T, d *Decision) (held context.Context, release func(), err error) {
	if !l.mayHold {
		return ctx, doNothing, l.allow(ctx, in, 1, d)
	}
	r, own, err := l.reserve(ctx, driver.Allow, in, 1)
	if *d = own; !r.holds() {
		return ctx, doNothing, err
	}
	held, stop := r.Keep(ctx)
	return held, sync.OnceFunc(func() {
		defer func() { _ = r.Release(context.WithoutCancel(ctx)) }() // if it fails, they return after the TTL
		stop()                                                       // panics if a renewal has
	}), nil
}

func doNothing() {} // a literal in a generic method would be allocated

// holds reports whether the reservation has taken units that are held.
func (r *Reservation[T]) holds() bool {
	return r != nil && slices.ContainsFunc(r.uses, func(u use) bool { return !u.taken.IsZero() })
}

// Keep renews the held units until stop is called. If they are lost, it cancels the context held, with a cause that wraps
// [ErrHoldLost].
//
// stop also cancels held, unless nothing is held: then held is ctx. It can be called again. It releases nothing: call
// Reservation.Settle or Reservation.Release after it. If a renewal panics, for instance in an Observer, held is cancelled, and
// stop panics.
func (r *Reservation[T]) Keep(ctx context.Context) (held context.Context, stop func()) {
	if !r.holds() {
		return ctx, doNothing
	}
	held, cancel := context.WithCancelCause(ctx)
	stopRenewal := r.renewUntilStopped(context.WithoutCancel(ctx), cancel)
	return held, sync.OnceFunc(func() {
		cancel(nil)
		stopRenewal()
	})
}

// renewUntilStopped renews the held units three times in each TTL, and more often after an error, until stop is called or they are
// lost.
func (r *Reservation[T]) renewUntilStopped(ctx context.Context, lost context.CancelCauseFunc) (stop func()) {
	ttl, _ := r.heldFor()
	stopped, ended := make(chan struct{}), make(chan struct{})
	var panicked any // it must reach the caller
	go func() {
		defer close(ended)
		defer func() {
			panicked = recover()
			lost(errNotRenewed) // it has no effect after another cause
		}()
		r.renewRepeatedly(ctx, ttl/3, stopped, lost)
	}()
	return func() {
		close(stopped)
		if <-ended; panicked != nil {
			panic(panicked)
		}
	}
}

func (r *Reservation[T]) renewRepeatedly(ctx context.Context, every time.Duration, stopped <-chan struct{}, lost context.CancelCauseFunc) {
	for pause := every; ; {
		_, until := r.heldFor()
		select {
		case <-stopped:
			return
		case <-time.After(min(pause, time.Until(until))):
		}
		left := time.Until(until)
		renewing, cancel := context.WithTimeout(ctx, min(left, max(left/2, DefaultTimeout))) // without a reply, there is time to try again
		err := r.Renew(renewing)
		cancel()
		switch pause = every; {
		case errors.Is(err, ErrHoldLost):
			lost(err)
			return
		case err != nil: // there is time to try again
			pause = every / 10
		}
	}
}

// heldFor returns the shortest TTL of the held units, algo.MaxPeriod if none are held, and when the first units of an enforced rule
// return.
func (r *Reservation[T]) heldFor() (ttl time.Duration, until time.Time) {
	ttl, until = algo.MaxPeriod, time.Now().Add(algo.MaxPeriod)
	for i := range r.uses {
		u := &r.uses[i]
		own := u.policy.Limit().Period
		if u.isHeld() {
			ttl = min(ttl, own)
		}
		if end := u.since.Add(own); !u.shadow && !u.taken.IsZero() && end.Before(until) {
			until = end
		}
	}
	return ttl, until
}
