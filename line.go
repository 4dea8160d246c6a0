package sluice

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/retrywait"
	"github.com/sluice-go/sluice/storage/driver"
)

// lines holds the calls of Wait that were denied, and those that arrived behind them. Calls with the same keys under the same enforced
// rules are in one line, by arrival. Only the head of a line asks the store, so the others need no timer.
type lines struct {
	mu       sync.Mutex
	all      map[string]*line // by waiter.key; none is empty
	arrivals int64
}

type line struct {
	waiters list.List // of *waiter, by arrival
	rule    string    // the rule that denied the head last
	asked   time.Time // when it was denied
	until   time.Time // when the head asks the store
}

// lineTTL is how long new calls rely on the last denial of the head. Units can have come back since, for instance by a Reset.
const lineTTL = time.Second

// waiter is a call of Wait.
type waiter struct {
	results  []RuleResult // the rules that apply, with their costs
	items    []driver.Item
	costs    []int64 // under the enforced rules; nil if key is empty
	key      string  // of its line; empty if it is not known yet
	released bool    // from its line, since its last denial
	arrival  int64   // the number of the call
	deadline time.Time
	line     *line // nil if the call asks the store by itself
	place    *list.Element
	changed  chan struct{} // receives after a change of what the call waits for
}

var (
	errWaitForHolder  = errors.New("Wait cannot release units that are held; use Do or Hold, and try again after a denial")
	errWaitForPenalty = errors.New("Wait cannot be used with a penalty, because to ask too early begins one; use Allow")
)

// newWaiter calls the functions of the rules.
func (l *Limiter[T]) newWaiter(ctx context.Context, in T, n int64) (*waiter, error) {
	var d Decision
	items, err := l.gather(driver.Allow, in, n, l.rules, &d, nil)
	if err != nil {
		return nil, err
	}
	for i := range d.Results {
		r := &d.Results[i]
		if isHolder(r.Policy) {
			return nil, &RuleError{Rule: r.Rule, Key: r.Key, Err: errWaitForHolder}
		}
		if _, ok := r.Policy.(*compose.Penalty); ok {
			return nil, &RuleError{Rule: r.Rule, Key: r.Key, Err: errWaitForPenalty}
		}
	}
	w := &waiter{results: d.Results, items: items, changed: make(chan struct{}, 1)}
	w.deadline, _ = ctx.Deadline()
	return w, nil
}

// decideWaiter asks the store.
func (l *Limiter[T]) decideWaiter(ctx context.Context, w *waiter) (Decision, error) {
	return l.observed(ctx, driver.Allow, func() (Decision, error) {
		d := Decision{Results: slices.Clone(w.results)}
		_, err := l.decide(ctx, driver.Allow, 0, slices.Clone(w.items), &d, l.options.OnFailure)
		return d, err
	})
}

// setKey sets the key. Calls with other policies for the same keys have other keys, because one can be allowed before the other.
func (w *waiter) setKey() {
	var key []byte
	for i := range w.results {
		r, k := &w.results[i], &w.items[i].Key
		if !r.Shadow {
			key = appendUse(key, k, r.Policy.String())
			w.costs = append(w.costs, r.Cost)
		}
	}
	w.key = string(key)
}

// isHopeless reports whether a rule never allows the cost.
func (w *waiter) isHopeless() bool {
	return slices.ContainsFunc(w.results, func(r RuleResult) bool {
		fresh, err := r.Policy.Peek(nil, time.Now(), r.Cost)
		return !r.Shadow && err == nil && fresh.RetryAfter == algo.Never
	})
}

// join puts a waiter that has just arrived at the end of its line, if there is one.
func (s *lines) join(w *waiter) (joined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals++
	w.arrival = s.arrivals
	if len(s.all) == 0 {
		return false
	}
	w.setKey()
	of := s.all[w.key]
	if of == nil || w.isHopeless() {
		return false
	}
	w.enter(of)
	if now := time.Now(); now.Sub(of.asked) > lineTTL && of.until.After(now) {
		of.until = now
		of.head().signal()
	}
	return true
}

// enter puts a waiter behind those that arrived before it. One that was denied later than them can become the head.
func (w *waiter) enter(of *line) {
	w.line = of
	before := of.waiters.Back()
	for before != nil && before.Value.(*waiter).arrival > w.arrival {
		before = before.Prev()
	}
	if before == nil {
		w.place = of.waiters.PushFront(w)
	} else {
		w.place = of.waiters.InsertAfter(w, before)
	}
}

func (of *line) head() *waiter { return of.waiters.Front().Value.(*waiter) }

func (w *waiter) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // it has not seen the last change yet
	}
}

// deny puts a denied waiter into its line, unless it is there already or gives up. If it is the head, it waits for RetryAfter, and
// the calls behind it whose deadlines are earlier give up.
func (s *lines) deny(w *waiter, d *Decision, givesUp bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.released = false
	if w.line == nil {
		if givesUp {
			return
		}
		if w.key == "" {
			w.setKey()
		}
		if s.all[w.key] == nil {
			s.all[w.key] = new(line)
		}
		w.enter(s.all[w.key])
	}
	of := w.line
	if of.head() != w {
		return
	}
	of.rule, of.asked = d.Rule, time.Now()
	of.until = of.asked.Add(d.RetryAfter)
	for e := w.place.Next(); e != nil; e = e.Next() {
		if other := e.Value.(*waiter); !other.deadline.IsZero() && other.deadline.Before(of.until) {
			other.signal()
		}
	}
}

// wait returns nil when the waiter shall ask the store, or the error of ctx. It returns at once if the head asks after the
// deadline of ctx. denial has the rule that denied the head, and the time until it asks again.
func (s *lines) wait(ctx context.Context, w *waiter) (denial Decision, err error) {
	for {
		s.mu.Lock()
		of := w.line
		if of == nil {
			s.mu.Unlock()
			return denial, nil
		}
		isHead := of.head() == w
		denial = Decision{Rule: of.rule, RetryAfter: max(0, time.Until(of.until))}
		s.mu.Unlock()
		if retrywait.ExceedsDeadline(ctx, denial.RetryAfter) {
			return denial, context.DeadlineExceeded
		}
		var timer <-chan time.Time
		switch {
		case isHead && denial.RetryAfter == 0:
			return denial, ctx.Err()
		case isHead:
			timer = time.After(denial.RetryAfter)
		}
		select {
		case <-w.changed:
		case <-timer:
		case <-ctx.Done():
			return denial, ctx.Err()
		}
	}
}

// leave takes a waiter out of its line. d is its last decision, which it asked for at asked. If the store has failed for the head, all
// others ask by themselves, because otherwise each would wait until the store has failed for those before it.
func (s *lines) leave(w *waiter, d *Decision, asked time.Time, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := w.line
	if of == nil {
		if of = s.all[w.key]; w.released && !d.Allowed && of != nil { // its units are left
			of.until = time.Now()
			of.head().signal()
		}
		return
	}
	wasHead := of.head() == w
	of.release(w)
	for wasHead && failed && of.waiters.Len() > 0 {
		of.release(of.head())
	}
	if wasHead && d.Allowed {
		of.pass(d, asked)
	}
	switch {
	case of.waiters.Len() == 0:
		delete(s.all, w.key)
	case wasHead && !d.Allowed:
		if next := of.head(); next.isCheaper(w) {
			of.until = time.Now()
		}
		of.head().signal()
	}
}

// release takes a waiter out of the line. It then asks the store by itself.
func (of *line) release(w *waiter) {
	of.waiters.Remove(w.place)
	w.line, w.released = nil, true
	w.signal()
}

// pass releases the waiters for which d has left enough units. The next one becomes the head. It asks when the next unit comes back,
// reckoned from the middle of the round trip.
func (of *line) pass(d *Decision, asked time.Time) {
	left := slices.DeleteFunc(slices.Clone(d.Results), func(r RuleResult) bool { return r.Shadow })
	for of.waiters.Len() > 0 {
		w := of.head()
		wait, fits := w.take(left)
		if !fits {
			now := time.Now()
			of.until = now.Add(wait - now.Sub(asked)/2)
			w.signal()
			return
		}
		of.release(w)
	}
}

// take subtracts the costs of a waiter from the units that are left under the enforced rules. If they do not fit, wait is the earliest
// time at which they can, and nothing is subtracted.
func (w *waiter) take(left []RuleResult) (wait time.Duration, fits bool) {
	if len(left) != len(w.costs) { // after a Degraded decision nothing is known
		return 0, false
	}
	for i := range left {
		if r := &left[i]; r.Remaining < w.costs[i] {
			wait = max(wait, r.NextRefill)
		}
	}
	if wait > 0 {
		return wait, false
	}
	for i := range left {
		left[i].Remaining -= w.costs[i]
	}
	return 0, true
}

// isCheaper reports whether a waiter may be allowed before another one of the same line.
func (w *waiter) isCheaper(other *waiter) bool {
	for i := range w.costs {
		if w.costs[i] < other.costs[i] {
			return true
		}
	}
	return false
}
