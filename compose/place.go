package compose

import (
	"encoding/binary"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// few is up to how many rules a limiter in memory decides without allocating.
const few = 3

// place is where a limiter decides without an engine: in a memory store, under
// its locks, on the stack of the caller.
type place struct {
	store *memory.Store
	clock func() time.Time // nil: the store's
	rules []placeRule
}

// placeRule is what the keys of one rule have in common.
type placeRule struct {
	prefix memory.Prefix
	plain  int // up to how many bytes of a user's key the stored key is as it is
}

// findPlace is nil where a limiter needs its engine.
func (l *Limiter[T]) findPlace(store storage.Store, clock func() time.Time) *place {
	o := &l.options
	s, ok := store.(*memory.Store)
	if !ok || len(l.rules) > few || o.Group != nil || o.StoreClock != nil {
		return nil
	}
	p := &place{store: s, clock: clock}
	for i := range l.rules {
		key := storage.Key("", o.Namespace, l.rules[i].Name, "")
		prefix, last := storage.CutKey(key)
		plain := storage.MaxKey - len(prefix) - binary.MaxVarintLen16
		if last != "" { // the names are so long that the key is a hash
			plain = -1
		}
		p.rules = append(p.rules, placeRule{s.Prefix(key), plain})
	}
	return p
}

func (p *place) now() time.Time {
	if p.clock != nil {
		return p.clock()
	}
	return p.store.Now()
}

// name is the name of the record of a rule for a user's key.
func (l *Limiter[T]) name(rule int, key string) memory.Name {
	if r := &l.place.rules[rule]; len(key) <= r.plain {
		return r.prefix.Name(key)
	}
	return l.place.store.Name(storage.Key("", l.options.Namespace, l.rules[rule].Name, key))
}

// together decides by several rules, or none. asked is how many of them applied.
func (l *Limiter[T]) together(in T, n int64, results *room, d *Decision) (asked int, err error) {
	var demands [few]demand
	var names [few]memory.Name
	for i := range l.rules {
		rule := &l.rules[i]
		asks, err := rule.demand(in, n)
		if err != nil {
			return 0, err
		}
		if asks.policy == nil {
			continue
		}
		demands[asked], names[asked] = asks, l.name(i, asks.key)
		r := &results[asked]
		r.Rule, r.Key, r.Policy, r.Cost, r.Shadow = rule.Name, asks.key, asks.policy, asks.cost, rule.Shadow
		asked++
	}
	if d.Allowed = true; asked == 0 {
		return 0, nil
	}
	d.Allowed, err = l.place.decide(demands[:asked], names[:asked], l.place.now(), results[:asked])
	d.summarize(results[:asked])
	return asked, err
}

// decide decides while it holds the records of names.
func (p *place) decide(demands []demand, names []memory.Name, now time.Time, results []RuleResult) (allowed bool, err error) {
	var hold memory.Hold
	p.store.Hold(&hold, now, names...)
	defer hold.Release()
	buffer, ends := hold.Buffer(), [few]int{}
	for i := range demands {
		r := &results[i]
		var longer []byte
		longer, r.Result, err = demands[i].policy.Step(buffer, hold.State(i), now, demands[i].cost)
		if err == nil {
			buffer = longer
		} else if err = r.broken(err); err != nil {
			return false, err
		}
		ends[i] = len(buffer)
	}
	hold.Keep(buffer)
	if !enforced(results) {
		return false, look(demands, &hold, now, results)
	}
	start := 0
	for i := range demands {
		if r := &results[i]; r.Allowed { // else it is a shadow, and nothing has changed
			next := buffer[start:ends[i]]
			hold.Put(i, next, ttl(r.ResetAfter), priority(demands[i].policy, next, now, &r.Result))
		}
		start = ends[i]
	}
	return true, nil
}

// look replaces the results of rules that would have paid, had no other denied.
func look(demands []demand, hold *memory.Hold, now time.Time, results []RuleResult) (err error) {
	for i := range results {
		if err = results[i].look(&demands[i], hold.State(i), now); err != nil {
			return err
		}
	}
	return nil
}
