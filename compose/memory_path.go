package compose

import (
	"encoding/binary"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/algorithm"
	"github.com/sluice-go/sluice/internal/memstore"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/tokenbucket"
)

// memoryPath is the fast path for a limiter with one rule and no groups on a memory.Store. It
// decides on the caller's goroutine under the lock of the record, without the engine.
type memoryPath struct {
	store  *memstore.Store
	prefix memstore.Prefix // of all keys of the rule
	maxKey int             // the longest user's key in bytes that follows prefix; longer keys are hashed
}

// findMemoryPath returns nil if the limiter needs the engine.
func (l *Limiter[T]) findMemoryPath(store storage.Store) *memoryPath {
	m, ok := store.(*memory.Store)
	if !ok || len(l.rules) != 1 || l.options.Group != nil {
		return nil
	}
	s := (*memstore.Store)(m)
	key := driver.Key("", l.options.Namespace, l.rules[0].Name, "")
	prefix, last := memstore.CutKey(s, key)
	maxKey := storage.MaxKey - len(key) - binary.MaxVarintLen16
	if last != "" { // the names are so long that every key is hashed
		maxKey = -1
	}
	return &memoryPath{s, prefix, maxKey}
}

// recordName returns the name of the record of a user's key.
func (l *Limiter[T]) recordName(key string) memstore.Name {
	if p := l.memory; len(key) <= p.maxKey {
		return p.prefix.Name(key)
	}
	return memstore.NameOf(l.memory.store, driver.Key("", l.options.Namespace, l.rules[0].Name, key))
}

// decideInMemory decides a call by the one rule.
//
// It reads the clock first, because the CPU can then overlap that with later instructions. It makes a
// time.Time only for policies that need it, because the conversion takes longer than some divisions.
func (l *Limiter[T]) decideInMemory(in T, n int64, d *Decision) error {
	p, rule, r := l.memory, &l.rules[0], &d.Results[0]
	var at int64
	if clock := l.options.Clock; clock != nil {
		at = memstore.Instant(clock())
	} else {
		at = memstore.InstantOf(p.store)
	}
	// Write the decision before unlocking the record: unlocking waits for all writes, and the
	// caller, who copies the decision, would have to wait for a later write again.
	d.Results, d.Attempts = d.Results[:1], 1
	applies, err := rule.demand(driver.Allow, in, n, r)
	switch {
	case err != nil:
		*d = Decision{}
		return err
	case !applies:
		*d = Decision{Allowed: true, Attempts: 1}
		return nil
	}
	var cell memstore.Cell
	cell.Lock(at, l.recordName(r.Key))
	var buffer [maxStateLen]byte
	next, ok, err := stepInto(r.Policy, buffer[:0], cell.State(), min(at/1000, algo.MaxInstant), r.Cost, &r.Result)
	if ok {
		if err != nil {
			err = r.fail(err)
		} else if r.Allowed {
			cell.Put(next, ttl(r.ResetAfter), priorityOf(&r.Result))
		}
		d.Allowed = r.Allowed || r.Shadow
		d.summarize()
		cell.Unlock()
	} else {
		err = stepByInterface(&cell, time.Unix(0, at), r, d)
	}
	if err != nil {
		*d = Decision{Attempts: 1}
	}
	l.checkSkew(d)
	return err
}

// maxStateLen is the length of the longest state of the policies in stepInto, in bytes.
const maxStateLen = 25

// stepInto calls Apply of the policies that have it. ok is false for other policies. A
// type switch is needed because arguments of a call through an interface escape to the heap.
// These policies never panic, so the caller need not defer the unlocking.
func stepInto(policy algo.Policy, dst, state []byte, at, cost int64, r *algo.Result) (next []byte, ok bool, err error) {
	switch p := policy.(type) {
	case gcra.Policy:
		next, err = p.Apply(algorithm.Step, dst, state, at, cost, r)
	case tokenbucket.Policy:
		next, err = p.Apply(algorithm.Step, dst, state, at, cost, r)
	case fixedwindow.Policy:
		next, err = p.Apply(algorithm.Step, dst, state, at, cost, r)
	default:
		return nil, false, nil
	}
	return next, true, err
}

// stepByInterface finishes decideInMemory for a policy that stepInto does not take.
func stepByInterface(cell *memstore.Cell, now time.Time, r *RuleResult, d *Decision) (err error) {
	defer cell.Unlock()
	var next []byte
	if next, r.Result, err = r.Policy.Step(cell.Buffer(), cell.State(), now, r.Cost); err != nil {
		err = r.fail(err)
	} else if cell.Keep(next); r.Allowed {
		cell.Put(next, ttl(r.ResetAfter), priority(r.Policy, next, now, &r.Result))
	}
	d.Allowed = r.Allowed || r.Shadow
	d.summarize()
	return err
}
