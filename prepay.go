package sluice

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/internal/prepay"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Prepay buys calls ahead. For a busy key, one round trip buys up to Calls calls, which the process then allows from its memory for up to
// For. Calls that are not used in that time stay charged. So nothing is allowed that was not charged, but it can be allowed up to
// For later: in any interval x, the policy admits at most Bound(x + For) units, with any number of processes.
//
// A process buys more with demand, 1, 2, 4 and so on, so a quiet key costs no more than without Prepay. It buys at most a
// sixteenth of the capacity of a rule. If fewer calls are left than it wants, its next purchase is one call. Calls that were bought
// ahead are used by Allow, Do, Hold, the middleware, and AllowN with n = 1. Wait, Reserve, AllowUpTo and a larger n always ask the
// store. Prepay has no effect with a store in memory, and a limiter with Prepay takes no rule such as "inflight 20 ttl=30s".
type Prepay struct {
	Calls int           // the most calls of one purchase; 0 turns Prepay off
	For   time.Duration // from 1ms to 1m, counted from before the purchase is sent
}

func (p Prepay) validate() error {
	switch {
	case p.Calls < 0 || p.Calls > 1<<20:
		return fmt.Errorf("sluice: Options.Prepay.Calls must be from 0 to 1048576, got %d", p.Calls)
	case p.Calls > 0 && (p.For < time.Millisecond || p.For > time.Minute):
		return fmt.Errorf("sluice: Options.Prepay.For must be from 1ms to 1m, got %v", p.For)
	}
	return nil
}

// purses holds the calls that were bought ahead, by keys and costs.
type purses struct {
	mu        sync.Mutex
	all       map[string]*purse
	nextSweep int // the number of purses at which the empty ones are deleted
}

type purse struct {
	prepay.Purse
	most     int64     // that the limits allow to buy
	decision Decision  // of the last purchase, for one call
	buying   *purchase // nil if there is none in flight
	waiting  int64     // how many calls waited for the last purchase
}

// purchase is a round trip that buys calls. The fields after done are set before done is closed.
type purchase struct {
	calls  int64
	done   chan struct{}
	denial *Decision // if no call is allowed
	failed bool      // the calls that wait ask the store themselves
}

var errPrepaidHolder = errors.New("Options.Prepay cannot buy units that are held; use a limiter without Prepay for this rule")

// allowPrepaid is Allow with Prepay.
func (l *Limiter[T]) allowPrepaid(ctx context.Context, in T) (d Decision, err error) {
	items := make([]driver.Item, len(l.rules))
	if err := l.gather(driver.Allow, in, 1, l.rules, &d, items); err != nil {
		return Decision{}, err
	}
	one := d.Results
	items = items[:len(one)]
	if i := slices.IndexFunc(one, func(r RuleResult) bool { return isHolder(r.Policy) }); i >= 0 {
		return Decision{}, &RuleError{Rule: one[i].Rule, Key: one[i].Key, Err: errPrepaidHolder}
	}
	var array [256]byte
	key := appendUses(array[:0], one, items)
	for {
		p, b := l.purses.take(key, int64(l.options.Prepay.Calls), &d)
		switch {
		case b == nil:
			return d, nil
		case p != nil:
			return l.buy(ctx, p, b, one, items)
		}
		select {
		case <-b.done:
		case <-ctx.Done():
			return Decision{}, storage.NotApplied(ctx.Err())
		}
		switch {
		case b.denial != nil:
			d = *b.denial
			d.Results = slices.Clone(d.Results)
			return d, nil
		case b.failed:
			d = Decision{Results: one}
			_, err = l.decide(ctx, driver.Allow, 0, items, &d, l.options.OnFailure)
			return d, err
		}
	}
}

// appendUses appends a text that is different for other keys or costs.
func appendUses(dst []byte, results []RuleResult, items []driver.Item) []byte {
	for i := range results {
		k := &items[i].Key
		for _, text := range [...]string{k.Group, k.Rule, k.Key} {
			dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
		}
		dst = binary.AppendVarint(dst, results[i].Cost)
	}
	return dst
}

// take spends a call and writes its decision to d. If none is left, it returns a purchase. If p is not nil, the caller must make
// the purchase. Otherwise another call makes it.
func (s *purses) take(key []byte, most int64, d *Decision) (p *purse, b *purchase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	p = s.all[string(key)]
	if p == nil {
		p = s.create(string(key), now)
	}
	if p.Spend(now) {
		*d = p.decision
		d.Results, d.Prepaid = slices.Clone(d.Results), true
		return nil, nil
	}
	if p.buying != nil {
		p.waiting++
		return nil, p.buying
	}
	most = min(most, max(p.most, 1))
	p.buying = &purchase{calls: max(p.Next(now, most), min(p.waiting, most)), done: make(chan struct{})}
	p.waiting = 0
	return p, p.buying
}

// create creates a purse. It first deletes the empty ones if there are many.
func (s *purses) create(key string, now time.Time) *purse {
	if len(s.all) >= max(s.nextSweep, 1024) {
		maps.DeleteFunc(s.all, func(_ string, p *purse) bool { return p.buying == nil && p.IsSpent(now) })
		s.nextSweep = 2 * len(s.all)
	}
	if s.all == nil {
		s.all = make(map[string]*purse)
	}
	p := new(purse)
	s.all[key] = p
	return p
}

// clear drops all calls that were bought.
func (s *purses) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.all)
}

// buy makes a purchase, of which the caller spends the first call.
func (l *Limiter[T]) buy(ctx context.Context, p *purse, b *purchase, one []RuleResult, items []driver.Item) (d Decision, err error) {
	sent := time.Now()
	b.failed = true
	defer func() { // also if a policy panics
		l.purses.mu.Lock()
		defer l.purses.mu.Unlock()
		p.buying = nil
		close(b.done)
	}()
	d = Decision{Results: slices.Clone(one)}
	calls, err := l.decide(ctx, driver.Allow, b.calls, items, &d, l.options.OnFailure)
	if b.failed = err != nil || d.Degraded; b.failed {
		return d, err
	}
	own := d
	own.Results = slices.Clone(d.Results)
	if calls == 0 {
		b.denial = &own
		return d, nil
	}
	most := int64(math.MaxInt64)
	for _, results := range [...][]RuleResult{d.Results, own.Results} {
		for i := range results {
			r, cost := &results[i], one[i].Cost
			if !r.Shadow {
				most = min(most, r.Limit/cost/16)
			}
			if r.Paid > 0 {
				r.Cost, r.Paid, r.Available, r.Refilled = cost, cost, r.Remaining+cost, 0
			}
		}
	}
	l.purses.mu.Lock()
	defer l.purses.mu.Unlock()
	p.decision, p.most = own, most
	p.Fill(sent, l.options.Prepay.For, calls-1, b.calls-1)
	return d, nil
}
