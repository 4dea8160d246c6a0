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
// rules are in one line, by arrival. Only the head of a line asks the store, so the others need no timer. But after an allowed call, the
// waiters for which units are left ask at the same time. The next head asks after their decisions, so it cannot take their units.
type lines struct {
	mu       sync.Mutex
	all      map[string]*line // by waiter.key; each has waiters, or calls that ask
	arrivals int64
}

type line struct {
	waiters list.List    // of *waiter, by arrival
	asking  int          // the calls that left waiters to ask the store, and have no decision yet
	least   []RuleResult // by enforced rule, the fewest units that were left by their decisions so far
	left    []RuleResult // by enforced rule, the units that are left for further calls; nil if unknown
	rule    string       // the rule that denied the head last
	asked   time.Time    // when it was denied
	until   time.Time    // the head asks the store then, once asking is 0
}

// lineTTL is how long new calls rely on the last denial of the head. Units can have come back since, for instance by a Reset.
const lineTTL = time.Second

// waiter is a call of Wait.
type waiter struct {
	results  []RuleResult // the rules that apply, with their costs
	items    []driver.Item
	costs    []int64 // under the enforced rules; nil if key is empty
	key      string  // of its line; empty if it is not known yet
	arrival  int64   // the number of the call
	deadline time.Time
	line     *line         // nil if the call asks the store by itself
	place    *list.Element // nil while the call asks the store
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
	d := Decision{Results: slices.Clone(w.results)}
	_, err := l.decide(ctx, driver.Allow, 0, slices.Clone(w.items), &d, l.options.OnFailure)
	return d, err
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
	of.pass()
	if now := time.Now(); of.waiters.Len() > 0 && now.Sub(of.asked) > lineTTL && of.until.After(now) {
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

func (w *waiter) isHead() bool { return w.place != nil && w.place == w.line.waiters.Front() }

func (of *line) head() *waiter { return of.waiters.Front().Value.(*waiter) }

func (w *waiter) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // it has not seen the last change yet
	}
}

// deny puts a denied waiter into its line. One that gives up leaves its line, and enters none if it had none. If the waiter is the
// head, it waits for RetryAfter, and the calls behind it whose deadlines are earlier give up.
func (s *lines) deny(w *waiter, d *Decision, givesUp bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := w.line
	switch {
	case of != nil:
		of.asking--
		of.left = nil // others use the units too
	case givesUp:
		return
	default:
		if w.key == "" {
			w.setKey()
		}
		if of = s.all[w.key]; of == nil {
			of = new(line)
			s.all[w.key] = of
		}
	}
	w.enter(of)
	if w.isHead() {
		of.rule, of.asked = d.Rule, time.Now()
		of.until = of.asked.Add(d.RetryAfter)
		for e := w.place.Next(); e != nil; e = e.Next() {
			if other := e.Value.(*waiter); !other.deadline.IsZero() && other.deadline.Before(of.until) {
				other.signal()
			}
		}
	} else {
		of.head().signal()
	}
	if givesUp { // before the calls behind it see its RetryAfter, because a cheaper one may be allowed earlier
		s.remove(w, d, time.Time{}, false)
	}
}

// wait returns nil when the waiter asks the store, or the error of ctx. It returns at once if the head asks after the
// deadline of ctx. denial has the rule that denied the head, and the time until it asks again.
func (s *lines) wait(ctx context.Context, w *waiter) (denial Decision, err error) {
	for {
		s.mu.Lock()
		of := w.line
		if of == nil || w.place == nil {
			s.mu.Unlock()
			return denial, nil
		}
		isNext := w.isHead() && of.asking == 0
		denial = Decision{Rule: of.rule, RetryAfter: max(0, time.Until(of.until))}
		if isNext && denial.RetryAfter == 0 {
			if err = ctx.Err(); err == nil {
				of.left, of.least = nil, nil
				of.ask()
			}
			s.mu.Unlock()
			return denial, err
		}
		s.mu.Unlock()
		if retrywait.ExceedsDeadline(ctx, denial.RetryAfter) {
			return denial, context.DeadlineExceeded
		}
		var timer <-chan time.Time
		if isNext {
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

// leave takes a waiter out of its line. d is its last decision, which it asked for at asked. If the store has failed for it, the
// others ask by themselves, because otherwise each would wait for the timeouts of all before it.
func (s *lines) leave(w *waiter, d *Decision, asked time.Time, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.line != nil {
		s.remove(w, d, asked, failed)
	}
}

// remove is leave for a waiter that is in a line. The caller must hold s.mu.
func (s *lines) remove(w *waiter, d *Decision, asked time.Time, failed bool) {
	of, now, wasHead, hasAsked := w.line, time.Now(), w.isHead(), w.place == nil
	w.line = nil
	switch {
	case !hasAsked:
		of.waiters.Remove(w.place)
		if wasHead && (of.waiters.Len() == 0 || of.head().isCheaper(w)) {
			of.until = now
		}
	case d.Allowed:
		of.asking--
		of.note(d)
		if of.asking == 0 { // the next one asks when the next unit comes back, reckoned from the middle of the round trip
			of.left, of.least = of.least, nil
			of.until = now.Add(of.pass() - now.Sub(asked)/2)
		}
	default: // its units may be left
		of.asking--
		of.until = now
	}
	for failed && of.waiters.Len() > 0 {
		other := of.waiters.Remove(of.waiters.Front()).(*waiter)
		other.line, other.place = nil, nil
		other.signal()
	}
	switch {
	case of.asking > 0:
	case of.waiters.Len() == 0:
		delete(s.all, w.key)
	case wasHead, hasAsked:
		of.head().signal()
	}
}

// note records how many units remain after an allowed call.
func (of *line) note(d *Decision) {
	left := slices.DeleteFunc(slices.Clone(d.Results), func(r RuleResult) bool { return r.Shadow })
	for i := range min(len(left), len(of.least)) {
		left[i].Remaining = min(left[i].Remaining, of.least[i].Remaining)
	}
	of.least = left
}

// pass lets the waiters ask for which units are left. wait is the time from the decision that left them until the next waiter can be
// allowed, at the earliest.
func (of *line) pass() (wait time.Duration) {
	for of.waiters.Len() > 0 {
		w := of.head()
		wait, fits := w.take(of.left)
		if !fits {
			return wait
		}
		of.ask()
		w.signal()
	}
	return 0
}

// ask takes the head out of the waiters, because it asks the store.
func (of *line) ask() {
	of.waiters.Remove(of.waiters.Front()).(*waiter).place = nil
	of.asking++
}

// take subtracts the costs of a waiter from the units that are left under the enforced rules. If they do not fit, wait is the earliest
// time at which they can, and nothing is subtracted.
func (w *waiter) take(left []RuleResult) (wait time.Duration, fits bool) {
	if len(left) != len(w.costs) { // nothing is known, for instance after a Degraded decision
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
