package compose

import (
	"encoding/binary"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/memstore"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/tokenbucket"
)

// memoryPath is the fast path of a limiter with one rule and without groups on a memory store.
// It decides under the lock of the record, on the stack of the caller.
type memoryPath struct {
	store  *memstore.Store
	clock  func() time.Time // nil: the store's
	prefix memstore.Prefix
	plain  int // up to how many bytes of a user's key the stored key is as it is
}

// findMemoryPath returns nil if the limiter needs its engine.
func (l *Limiter[T]) findMemoryPath(store storage.Store, clock func() time.Time) *memoryPath {
	s, ok := store.(*memory.Store)
	if !ok || len(l.rules) != 1 || l.options.Group != nil {
		return nil
	}
	key := driver.Key("", l.options.Namespace, l.rules[0].Name, "")
	prefix, last := driver.CutKey(key)
	plain := storage.MaxKey - len(prefix) - binary.MaxVarintLen16
	if last != "" { // the names are so long that the key is a hash
		plain = -1
	}
	table := s.Table()
	return &memoryPath{table, clock, table.Prefix(key), plain}
}

// name is the name of the record of a user's key.
func (l *Limiter[T]) name(key string) memstore.Name {
	if p := l.memory; len(key) <= p.plain {
		return p.prefix.Name(key)
	}
	return l.memory.store.Name(driver.Key("", l.options.Namespace, l.rules[0].Name, key))
}

// decideInMemory decides by the one rule.
//
// It reads the clock first, because a processor finishes what is before that and
// may begin what comes after. It makes no time.Time of what the store's clock says
// unless the policy wants one: that takes longer than some divisions.
func (l *Limiter[T]) decideInMemory(in T, n int64, d *Decision) error {
	p, rule, r := l.memory, &l.rules[0], &d.Results[0]
	var at int64
	var now time.Time
	if p.clock == nil {
		at = p.store.Instant()
	} else {
		now = p.clock()
		at = memstore.Instant(now)
	}
	policy, cost := rule.Policy, n
	if rule.Cost != nil || rule.PolicyFor != nil {
		demand, err := rule.demand(in, n)
		if err != nil {
			*d = Decision{}
			return err
		}
		policy, cost, r.Key = demand.policy, demand.cost, demand.key
	} else {
		r.Key = rule.key(in)
	}
	if policy == nil {
		*d = Decision{Allowed: true, Attempts: 1}
		return nil
	}
	// The decision is written before the record is unlocked, because unlocking waits for all
	// writes. A later write would make the caller, who copies the decision, wait once more.
	d.Results, d.Attempts = d.Results[:1], 1
	r.Rule, r.Policy, r.Cost, r.Shadow = rule.Name, policy, cost, rule.Shadow
	var cell memstore.Cell
	p.store.Lock(&cell, at, l.name(r.Key))
	var room [longest]byte
	next, known, err := stepInto(policy, cell.Room(room[:0]), cell.State(), min(at, algo.MaxInstant), cost, &r.Result)
	if known {
		if err != nil {
			err = r.broken(err)
		} else if r.Allowed {
			cell.Put(next, ttl(r.ResetAfter), priorityOf(&r.Result))
		}
		d.summarizeOne(r)
		cell.Unlock()
	} else {
		if p.clock == nil {
			now = time.Unix(0, at)
		}
		err = stepUnknown(&cell, now, cost, r, d)
	}
	if err != nil {
		*d = Decision{Attempts: 1}
	}
	l.judge(d)
	return err
}

// longest is the length of the longest state of the policies that stepInto knows.
const longest = 35

// stepInto is Step of the policies that have a StepInto. They are known by name: of
// what is handed to a method of an interface, nothing could stay on the stack. And
// they never panic, so that nobody need be ready to unlock.
func stepInto(policy algo.Policy, dst, state []byte, at, cost int64, r *algo.Result) (next []byte, known bool, err error) {
	switch p := policy.(type) {
	case gcra.Policy:
		next, err = p.StepInto(dst, state, at, cost, r)
	case tokenbucket.Policy:
		next, err = p.StepInto(dst, state, at, cost, r)
	case fixedwindow.Policy:
		next, err = p.StepInto(dst, state, at, cost, r)
	default:
		return nil, false, nil
	}
	return next, true, err
}

// stepUnknown finishes decideInMemory for a policy that stepInto does not know.
func stepUnknown(cell *memstore.Cell, now time.Time, cost int64, r *RuleResult, d *Decision) (err error) {
	defer cell.Unlock()
	var next []byte
	if next, r.Result, err = r.Policy.Step(cell.Buffer(), cell.State(), now, cost); err != nil {
		err = r.broken(err)
	} else if cell.Keep(next); r.Allowed {
		cell.Put(next, ttl(r.ResetAfter), priority(r.Policy, next, now, &r.Result))
	}
	d.summarizeOne(r)
	return err
}
