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

// waitQueues holds the calls of Wait that were denied, and those that arrived behind them. Calls with the same keys under the same
// enforced rules are in one queue, by arrival. Only the head of a queue asks the store, so the others need no timer. But after an
// allowed call, the waiters for which units are left ask at the same time. The next head asks after their decisions, so it cannot
// take their units.
type waitQueues struct {
	mu       sync.Mutex
	all      map[string]*waitQueue // by waiter.key; each has waiters, or calls that ask
	arrivals int64
}

type waitQueue struct {
	waiters list.List    // of *waiter, by arrival
	asking  int          // the calls that left waiters to ask the store, and have no decision yet
	least   []RuleResult // by enforced rule, the fewest units that were left by their decisions
	rule    string       // the rule that denied the head last
	asked   time.Time    // when it was denied
	until   time.Time    // the head asks the store then, once asking is 0
}

// headDenialTTL is how long new calls rely on the last denial of the head. Units can have come back since, for instance by a Reset.
const headDenialTTL = time.Second

// waiter is a call of Wait.
type waiter struct {
	results  []RuleResult // the rules that apply, with their costs
	items    []driver.Item
	costs    []int64 // under the enforced rules
	key      string  // of its queue
	arrival  int64   // the number of the call
	deadline time.Time
	queue    *waitQueue    // nil if the call asks the store by itself
	place    *list.Element // nil if the call asks the store
	changed  chan struct{} // receives after a change of what the call waits for
}

var (
	errWaitForHolder  = errors.New("Wait cannot release units that are held; use Do or Hold, and try again after a denial")
	errWaitForPenalty = errors.New("Wait cannot be used with a penalty, because to ask too early begins one; use Allow")
)

// newWaiter calls the functions of the rules. The waiter is in no queue yet.
func (l *Limiter[T]) newWaiter(ctx context.Context, in T, n int64) (*waiter, error) {
	var d Decision
	items, err := l.gather(driver.Allow, in, n, l.rules, &d, nil)
	if err != nil {
		return nil, err
	}
	w := &waiter{results: d.Results, items: items, changed: make(chan struct{}, 1)}
	w.deadline, _ = ctx.Deadline()
	var key []byte
	for i := range w.results {
		r := &w.results[i]
		if isHolder(r.Policy) {
			return nil, &RuleError{Rule: r.Rule, Key: r.Key, Err: errWaitForHolder}
		}
		if _, ok := r.Policy.(*compose.Penalty); ok {
			return nil, &RuleError{Rule: r.Rule, Key: r.Key, Err: errWaitForPenalty}
		}
		if !r.Shadow { // calls with other policies have other keys, because one can be allowed before the other
			key = l.appendUse(key, r, &items[i].Key)
			w.costs = append(w.costs, r.Cost)
		}
	}
	w.key = string(key)
	return w, nil
}

// decideWaiter asks the store.
func (l *Limiter[T]) decideWaiter(ctx context.Context, w *waiter) (Decision, error) {
	d := Decision{Results: slices.Clone(w.results)}
	_, err := l.decide(ctx, driver.Allow, 0, slices.Clone(w.items), &d, l.options.OnFailure)
	return d, err
}

// isHopeless reports whether a rule never allows the cost.
func (w *waiter) isHopeless() bool {
	return slices.ContainsFunc(w.results, func(r RuleResult) bool {
		fresh, _ := r.Policy.Peek(nil, time.Now(), r.Cost)
		return !r.Shadow && fresh.RetryAfter == algo.Never
	})
}

// join puts a waiter that has just arrived at the end of its queue, if there is one.
func (s *waitQueues) join(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals++
	w.arrival = s.arrivals
	q := s.all[w.key]
	if q == nil || w.isHopeless() {
		return
	}
	w.enter(q)
	if now := time.Now(); now.Sub(q.asked) > headDenialTTL {
		q.until = now
		q.head().signal()
	}
}

// enter puts a waiter behind those that arrived before it. One that was denied later than them can become the head.
func (w *waiter) enter(q *waitQueue) {
	w.queue = q
	before := q.waiters.Back()
	for before != nil && before.Value.(*waiter).arrival > w.arrival {
		before = before.Prev()
	}
	if before == nil {
		w.place = q.waiters.PushFront(w)
	} else {
		w.place = q.waiters.InsertAfter(w, before)
	}
}

func (w *waiter) isHead() bool { return w.place == w.queue.waiters.Front() }

func (q *waitQueue) head() *waiter { return q.waiters.Front().Value.(*waiter) }

func (w *waiter) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // it has not seen the last change yet
	}
}

// deny puts a denied waiter into its queue. If the waiter is the head, it waits for RetryAfter, and the calls behind it whose
// deadlines are earlier give up. A waiter that gives up leaves the queue then.
func (s *waitQueues) deny(w *waiter, d *Decision, givesUp bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := w.queue
	if q != nil {
		q.asking--
	} else if q = s.all[w.key]; q == nil {
		q = new(waitQueue)
		s.all[w.key] = q
	}
	w.enter(q)
	if w.isHead() {
		q.rule, q.asked = d.Rule, time.Now()
		q.until = q.asked.Add(d.RetryAfter)
		for e := w.place.Next(); e != nil; e = e.Next() {
			if other := e.Value.(*waiter); !other.deadline.IsZero() && other.deadline.Before(q.until) {
				other.signal()
			}
		}
	} else {
		q.head().signal()
	}
	if givesUp { // before the calls behind it see its RetryAfter, because a cheaper one may be allowed earlier
		s.remove(w, d, time.Time{}, false)
	}
}

// wait returns nil when the waiter must ask the store, at once if it is in no queue, or the error of ctx. It returns at once if the
// head asks after the deadline of ctx. denial has the rule that denied the head, and the time until it asks again.
func (s *waitQueues) wait(ctx context.Context, w *waiter) (denial Decision, err error) {
	for {
		s.mu.Lock()
		q := w.queue
		if w.place == nil {
			s.mu.Unlock()
			return denial, nil
		}
		isNext := w.isHead() && q.asking == 0
		denial = Decision{Rule: q.rule, RetryAfter: max(0, time.Until(q.until))}
		if isNext && denial.RetryAfter == 0 {
			q.ask()
			s.mu.Unlock()
			return denial, ctx.Err()
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

// leave takes a waiter out of its queue. d is its last decision, which it asked for at asked. If the store has failed for it, the
// others ask by themselves, because otherwise each would wait for the timeouts of all before it.
func (s *waitQueues) leave(w *waiter, d *Decision, asked time.Time, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.queue != nil {
		s.remove(w, d, asked, failed)
	}
}

// remove is leave for a waiter that is in a queue. The caller must hold s.mu.
func (s *waitQueues) remove(w *waiter, d *Decision, asked time.Time, failed bool) {
	q, now, wasHead := w.queue, time.Now(), w.isHead()
	w.queue = nil
	switch {
	case w.place != nil: // it has not asked
		q.waiters.Remove(w.place)
		if wasHead && (q.waiters.Len() == 0 || q.head().isCheaper(w)) {
			q.until = now
		}
	case d.Allowed:
		q.asking--
		q.note(d)
		if q.asking == 0 { // the next one asks when the next unit comes back, reckoned from the middle of the round trip
			q.until = now.Add(q.pass() - now.Sub(asked)/2)
		}
	default: // its units may be left
		q.asking--
		q.until = now
	}
	for failed && q.waiters.Len() > 0 {
		other := q.waiters.Remove(q.waiters.Front()).(*waiter)
		other.queue, other.place = nil, nil
		other.signal()
	}
	switch {
	case q.asking > 0:
	case q.waiters.Len() == 0:
		delete(s.all, w.key)
	default:
		q.head().signal()
	}
}

// note records how many units remain after an allowed call.
func (q *waitQueue) note(d *Decision) {
	left := slices.DeleteFunc(slices.Clone(d.Results), func(r RuleResult) bool { return r.Shadow })
	for i := range min(len(left), len(q.least)) {
		left[i].Remaining = min(left[i].Remaining, q.least[i].Remaining)
	}
	q.least = left
}

// pass lets the waiters ask for which units are left. wait is the time from the decision that left them until the next waiter can be
// allowed, at the earliest.
func (q *waitQueue) pass() (wait time.Duration) {
	left := q.least
	for q.waiters.Len() > 0 {
		w := q.head()
		wait, fits := w.take(left)
		if !fits {
			return wait
		}
		q.ask()
		w.signal()
	}
	return 0
}

// ask takes the head out of the waiters, because it asks the store. It forgets the units that earlier decisions left.
func (q *waitQueue) ask() {
	q.least = nil
	q.waiters.Remove(q.waiters.Front()).(*waiter).place = nil
	q.asking++
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

// isCheaper reports whether a waiter may be allowed before another one of the same queue.
func (w *waiter) isCheaper(other *waiter) bool {
	for i := range w.costs {
		if w.costs[i] < other.costs[i] {
			return true
		}
	}
	return false
}
