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
	"github.com/sluice-go/sluice/internal/sweep"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Prepay buys calls for busy keys ahead. One round trip buys up to Calls calls of a key, which the process then allows from its
// memory for up to For. Calls that are not used in that time stay charged. So any interval x admits at most Bound(x + For)
// units.
//
// A purchase grows with demand, so a quiet key costs no more than without Prepay. It is at most a sixteenth of the capacity of
// a rule. Only Allow, Do, Hold, the middleware, and AllowN with n = 1 use bought calls. A limiter with Prepay refuses inflight
// rules. Prepay has no effect with a store in memory.
type Prepay struct {
	Calls int           // the most calls of one purchase, up to 1048576; 0 turns Prepay off
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
	mu     sync.Mutex
	all    map[string]*purse
	sweeps sweep.Schedule // of the empty ones
	change time.Time      // of the last operation that may have given units back
}

type purse struct {
	prepay.Purse
	most     int64        // that the limits allow to buy; 0 if it is not known
	decision Decision     // of the last purchase
	one      []RuleResult // the costs of one call
	used     int64        // how many calls of the last purchase were used
	buying   *purchase    // nil if there is none in flight
	waiting  int64        // the calls that have waited since the last purchase
}

// purchase is a round trip that buys calls. denial is set before done is closed.
type purchase struct {
	calls  int64
	began  time.Time
	done   chan struct{}
	denial *Decision // if no call is allowed
}

var errPrepaidHolder = errors.New("Options.Prepay cannot buy units that are held; use a limiter without Prepay for this rule")

// allowPrepaid is Allow with Prepay. A call waits for at most one purchase of another call, and that
// counts towards its timeout.
func (l *Limiter[T]) allowPrepaid(ctx context.Context, in T) (d Decision, err error) {
	if err := ctx.Err(); err != nil {
		return d, storage.NotApplied(err)
	}
	var someResults inlineResults
	var someItems [inlineRules]driver.Item
	gathered := Decision{Results: someResults[:]}
	items, err := l.gather(driver.Allow, in, 1, l.rules, &gathered, someItems[:0])
	if err != nil {
		return Decision{}, err
	}
	one := gathered.Results // of one call; a call that was bought ahead allocates only its own results
	if i := slices.IndexFunc(one, func(r RuleResult) bool { return isHolder(r.Policy) }); i >= 0 {
		return Decision{}, &RuleError{Rule: one[i].Rule, Key: one[i].Key, Err: errPrepaidHolder}
	}
	var began time.Time
	isLong := func(i driver.Item) bool { return !i.Key.IsShort() } // purses must be small
	if len(one) > 0 && !slices.ContainsFunc(items, isLong) {
		var array [256]byte
		key := array[:0]
		for i := range one {
			key = binary.AppendVarint(l.appendUse(key, &one[i], &items[i].Key), one[i].Cost)
		}
		spent, p, b := l.purses.take(key, int64(l.options.Prepay.Calls), one, true)
		switch {
		case spent.Prepaid:
			return spent, nil
		case p != nil:
			return l.buy(ctx, p, b, one, items)
		case b != nil:
			began = time.Now()
			err := l.engine.Await(ctx, b.done, items) // an error means that no time is left or too many calls wait, and returns again
			if err == nil && b.denial != nil {
				d = *b.denial
				d.Results = slices.Clone(d.Results)
				return d, nil
			}
			if spent, _, _ := l.purses.take(key, 0, one, false); spent.Prepaid {
				return spent, nil
			}
		}
	}
	d.Results = slices.Clone(one)
	_, err = l.decideSince(ctx, began, driver.Allow, 0, items, &d, l.options.OnFailure)
	return d, err
}

// appendUse appends a text that is different for another key or policy of a rule.
func (l *Limiter[T]) appendUse(dst []byte, r *RuleResult, k *driver.RuleKey) []byte {
	policy := ""
	if l.ruleOf(r.Rule).PolicyFor != nil {
		policy = r.Policy.String()
	}
	for _, text := range [...]string{k.Group, k.Rule, k.Key, policy} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	return dst
}

// take spends a call and returns its decision. If none is left, it returns a purchase to wait for, or none if the caller must ask the
// store itself: because it may not buy, because only one call at a time can be bought and another call buys it, or because units may
// have come back since that purchase began. If p is not nil, the caller must make the purchase. Otherwise another call makes it.
func (s *purses) take(key []byte, most int64, one []RuleResult, buys bool) (spent Decision, p *purse, b *purchase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.all = sweep.Map(&s.sweeps, s.all, 1024, now, func(p *purse) bool { return p.buying == nil && p.IsSpent(now) })
	if p = s.all[string(key)]; p == nil {
		p = &purse{one: slices.Clone(one)}
		s.all[string(key)] = p
	}
	switch {
	case p.Spend(now):
		p.used++
		spent = p.ofCall(p.used)
		spent.Prepaid = true
		return spent, nil, nil
	case !buys || p.buying != nil && (p.most == 1 || !p.buying.began.After(s.change)): // it must not share a denial that is older than the change
		return spent, nil, nil
	case p.buying != nil:
		p.waiting++
		return spent, nil, p.buying
	}
	most = min(most, max(p.most, 1))
	p.buying = &purchase{calls: max(p.Next(now, most), min(p.waiting, most)), began: now, done: make(chan struct{})}
	p.waiting = 0
	return spent, p, p.buying
}

// changed notes an operation under the keys of results that may have given units back. A reset also drops the calls that were bought
// under them.
func (s *purses) changed(results []RuleResult, reset bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.change = time.Now(); reset {
		s.drop(func(own RuleResult) bool {
			return slices.ContainsFunc(results, func(r RuleResult) bool { return r.Rule == own.Rule && r.Key == own.Key })
		})
	}
}

// dropRule drops the calls that were bought under a rule.
func (s *purses) dropRule(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(own RuleResult) bool { return own.Rule == name })
}

func (s *purses) drop(drops func(own RuleResult) bool) {
	maps.DeleteFunc(s.all, func(_ string, p *purse) bool { return slices.ContainsFunc(p.one, drops) })
}

// ofCall returns the decision of the n-th call of the last purchase. A shadow rule may have charged fewer calls; it denies the others.
func (p *purse) ofCall(n int64) Decision {
	d := p.decision
	d.Results = slices.Clone(d.Results)
	for i := range d.Results {
		r, cost := &d.Results[i], p.one[i].Cost
		r.Allowed, r.Cost = n <= r.Paid/cost, cost
		if r.Paid = cost; r.Allowed {
			r.RetryAfter = 0
		} else {
			r.Paid = 0
		}
		r.Available, r.Refilled = r.Remaining+r.Paid, 0
	}
	return d
}

// buy makes a purchase, of which the caller spends the first call. It does not end if ctx is cancelled, because the other calls stay
// charged. If the store fails, the failure policy decides about one call.
func (l *Limiter[T]) buy(ctx context.Context, p *purse, b *purchase, one []RuleResult, items []driver.Item) (d Decision, err error) {
	sent, calls := time.Now(), int64(0)
	defer func() { // also if a policy panics
		l.purses.mu.Lock()
		defer l.purses.mu.Unlock()
		p.buying = nil
		if calls == 0 || time.Since(sent) >= l.options.Prepay.For {
			p.Empty()
			p.waiting = 0
		}
		close(b.done)
	}()
	d = Decision{Results: slices.Clone(one)}
	buying, cancel := l.uncancelled(ctx)
	defer cancel()
	calls, err = l.decide(buying, driver.Allow, b.calls, items, &d, FailClosed)
	switch {
	case err != nil:
		d.Results = slices.Clone(one)
		_, err = l.fallBack(ctx, driver.Allow, 0, items, &d, l.options.OnFailure, err)
		return d, err
	case calls == 0:
		denial := d
		denial.Results = slices.Clone(d.Results)
		b.denial = &denial
		return d, nil
	}
	most := int64(math.MaxInt64)
	for i := range d.Results {
		if r := &d.Results[i]; r.Err == nil { // otherwise it is a shadow rule without a Limit
			most = min(most, r.Limit/one[i].Cost/prepay.Share)
		}
	}
	l.purses.mu.Lock()
	defer l.purses.mu.Unlock()
	p.decision, p.most, p.used = d, max(most, 1), 1
	p.Fill(sent, l.options.Prepay.For, calls-1, b.calls-1)
	return p.ofCall(1), nil
}
