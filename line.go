package sluice

import (
	"container/list"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/retrywait"
	"github.com/sluice-go/sluice/storage/driver"
)

// lines holds the calls of Wait that were denied, and those that arrived behind them. Calls with the same keys under the enforced
// rules are in one line, first come, first served. Only the head of a line asks the store, so the others need no timer.
type lines struct {
	mu       sync.Mutex
	all      map[string]*line // by waiter.keys; none is empty
	arrivals int64
}

type line struct {
	waiters   list.List // of *waiter, by arrival; the first is the head
	rule      string    // the rule that denied last
	until     time.Time // when the head asks
	dissolved bool      // the store failed, so each waiter asks for itself
}

// waiter is a call of Wait.
type waiter struct {
	keys     string
	costs    []int64       // under the enforced rules
	hopeless bool          // a rule never allows the costs
	arrival  int64         // its number
	turn     chan struct{} // closed when the waiter is the head
	line     *line         // nil if it is in none
	place    *list.Element // in line
}

// newWaiter calls the functions of the rules. If one fails, so will AllowN, and the waiter has no keys.
func (l *Limiter[T]) newWaiter(in T, n int64) *waiter {
	w := &waiter{turn: make(chan struct{})}
	var d Decision
	items := make([]driver.Item, len(l.rules))
	if l.gather(driver.Allow, in, n, l.rules, &d, items) != nil {
		return w
	}
	var keys []byte
	for i := range d.Results {
		r, k := &d.Results[i], &items[i].Key
		if r.Shadow {
			continue
		}
		keys = strconv.AppendQuote(strconv.AppendQuote(strconv.AppendQuote(keys, k.Group), k.Rule), k.Key)
		w.costs = append(w.costs, r.Cost)
		fresh, err := r.Policy.Peek(nil, time.Now(), r.Cost)
		w.hopeless = w.hopeless || err == nil && fresh.RetryAfter == algo.Never
	}
	w.keys = string(keys)
	return w
}

// join puts a waiter that has just arrived at the end of its line, if there is one.
func (s *lines) join(w *waiter) (joined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals++
	w.arrival = s.arrivals
	if of := s.all[w.keys]; of != nil && !w.hopeless {
		w.enter(of)
	}
	return w.line != nil
}

// enter puts a waiter behind those that arrived before it. If it was denied later than them, it can become the head.
func (w *waiter) enter(of *line) {
	w.line = of
	before, head := of.waiters.Back(), of.waiters.Front()
	for before != nil && before.Value.(*waiter).arrival > w.arrival {
		before = before.Prev()
	}
	if before != nil {
		w.place = of.waiters.InsertAfter(w, before)
		return
	}
	w.place = of.waiters.PushFront(w)
	close(w.turn)
	if head != nil {
		head.Value.(*waiter).turn = make(chan struct{})
	}
}

// deny puts a denied waiter into its line, unless it is there already. The head waits for RetryAfter.
func (s *lines) deny(w *waiter, d *Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.line == nil {
		of := s.all[w.keys]
		if of == nil {
			of = new(line)
			if s.all == nil {
				s.all = make(map[string]*line)
			}
			s.all[w.keys] = of
		}
		w.enter(of)
	}
	if w.isHead() {
		w.line.rule, w.line.until = d.Rule, time.Now().Add(d.RetryAfter)
	}
}

func (w *waiter) isHead() bool { return w.line.waiters.Front() == w.place }

// wait returns nil when the waiter shall ask the store, or the error of ctx. It returns at once if the head will ask after the
// deadline of ctx. denial is that of the head.
func (s *lines) wait(ctx context.Context, w *waiter) (denial Decision, err error) {
	state := func() (denial Decision, turn chan struct{}, isHead bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return Decision{Rule: w.line.rule, RetryAfter: max(0, time.Until(w.line.until))}, w.turn, w.isHead()
	}
	for {
		denial, turn, _ := state()
		if retrywait.ExceedsDeadline(ctx, denial.RetryAfter) {
			return denial, context.DeadlineExceeded
		}
		select {
		case <-turn:
		case <-ctx.Done():
			denial, _, _ = state()
			return denial, ctx.Err()
		}
		if w.line.dissolved {
			w.line, w.turn = nil, make(chan struct{})
			return Decision{}, nil
		}
		denial, _, _ = state()
		if err := retrywait.Sleep(ctx, denial.RetryAfter); err != nil {
			return denial, err
		}
		if _, _, isHead := state(); isHead { // a call that arrived earlier can have been denied meanwhile
			return denial, nil
		}
	}
}

// leave takes a waiter out of its line. d is its last decision. If the store has failed for the head, the line dissolves, because
// otherwise each waiter would wait until the store has failed for those before it.
func (s *lines) leave(w *waiter, d *Decision, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.line == nil || w.line.dissolved {
		return
	}
	of, wasHead := w.line, w.isHead()
	of.waiters.Remove(w.place)
	next := of.waiters.Front()
	switch {
	case next == nil:
		delete(s.all, w.keys)
	case !wasHead:
	case failed:
		delete(s.all, w.keys)
		of.dissolved = true
		for ; next != nil; next = next.Next() {
			close(next.Value.(*waiter).turn)
		}
	default:
		of.pass(w, next.Value.(*waiter), d)
	}
}

// pass makes next the head after a waiter that d has allowed, or that was not allowed.
func (of *line) pass(left, next *waiter, d *Decision) {
	if d.Allowed {
		of.until = time.Now().Add(untilUnits(d, next.costs))
	}
	for i, cost := range next.costs {
		if !d.Allowed && cost < left.costs[i] { // it may be allowed sooner
			of.until = time.Now()
		}
	}
	close(next.turn)
}

// untilUnits returns the time until a call with these costs can be allowed after d. If a rule lacks more than one
// unit, it can take longer.
func untilUnits(d *Decision, costs []int64) (wait time.Duration) {
	for i := range d.Results {
		if r := &d.Results[i]; !r.Shadow && len(costs) > 0 {
			if r.Remaining < costs[0] {
				wait = max(wait, r.NextRefill)
			}
			costs = costs[1:]
		}
	}
	return wait
}
