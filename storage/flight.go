package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// fly takes groups that share no key to the store and back, in one round trip; in
// two if some of them need a look as well. Each then has its fate.
func (e *Engine) fly(ctx context.Context, groups []*group) {
	for _, g := range groups {
		g.fate = stood
	}
	e.fold(groups)
	var blind []*group
	for _, g := range groups {
		if !g.grounded() {
			blind = append(blind, g)
		}
	}
	if len(blind) > 0 {
		e.look(ctx, blind)
		e.fold(groups)
	}

	ready := make([]*group, 0, len(groups))
	for _, g := range groups {
		if g.fate == stood && !g.stands() {
			ready = append(ready, g)
		}
	}
	if len(ready) == 1 {
		g := ready[0]
		swaps := g.appendSwaps(make([]Swap, 0, len(g.holds)))
		g.settle(e.seen, swaps, e.swap(ctx, g, swaps))
	} else if len(ready) > 0 {
		e.swapTogether(ctx, ready)
	}
}

// fold runs the calls of those groups that are not folded, by one reading of the
// clock.
func (e *Engine) fold(groups []*group) {
	var now time.Time
	for _, g := range groups {
		if g.folded || g.fate != stood {
			continue
		}
		if now.IsZero() {
			now = e.options.Clock()
		}
		e.recall(g)
		g.fold(now)
	}
}

// look reads what is stored under the keys of groups.
func (e *Engine) look(ctx context.Context, groups []*group) {
	now := groups[0].now
	var keys []string
	for _, g := range groups {
		for i := range g.holds {
			keys = append(keys, g.holds[i].key)
		}
	}
	records, err := e.load(ctx, now, keys)
	e.note(ctx, groups[0], err)
	if err != nil && len(groups) > 1 && ctx.Err() == nil { // it may be that of one alone
		for i := range groups {
			e.look(ctx, groups[i:i+1])
		}
		return
	}
	for _, g := range groups {
		if err != nil {
			g.fail(NotApplied(err))
			continue
		}
		for i := range g.holds {
			g.holds[i].see(e.seen, now, records[i])
		}
		records = records[len(g.holds):]
		g.last, g.fresh, g.folded = nil, true, false
	}
}

// resolve finds out what became of a group whose reply was lost. The same swaps
// are sent again until the store answers them, or a look shows their version: as
// long as what they replace is still there they have not been applied, and sending
// them twice cannot apply them twice.
func (e *Engine) resolve(ctx context.Context, g *group) {
	swaps := g.sent
	for i := range swaps {
		e.seen.forget(swaps[i].Key)
	}
	for g.pause.wait(ctx, g.last) == nil {
		o := e.swap(ctx, g, swaps)
		switch {
		case errors.Is(o.Err, ErrTorn):
			g.settle(e.seen, swaps, o)
			return
		case o.Err != nil:
			g.last = o.Err
			continue
		case o.Swapped || applied(swaps, o.Current):
			g.settle(e.seen, swaps, Outcome{Swapped: true})
			return
		}
		break
	}
	g.end(g.last)
}

// applied reports whether what is stored shows a write of swaps. Of a group of
// writes all were made in one instant, so one shows them all.
func applied(swaps []Swap, current []Record) bool {
	onlyDeletes, allAbsent := true, true
	for i, s := range swaps {
		if s.New.Version != 0 && current[i].Version == s.New.Version {
			return true
		}
		onlyDeletes = onlyDeletes && s.New.Version == 0
		allAbsent = allAbsent && current[i].Version == 0
	}
	return onlyDeletes && allAbsent
}

func (e *Engine) load(ctx context.Context, now time.Time, keys []string) (records []Record, err error) {
	if timed, ok := e.store.(Timed); ok {
		records, err = timed.LoadAt(ctx, now, keys...)
	} else {
		records, err = e.store.Load(ctx, keys...)
	}
	if err == nil && len(records) != len(keys) {
		err = fmt.Errorf("storage: the store answered with %d records to %d keys", len(records), len(keys))
	}
	return records, err
}

// swap tries the swaps of a group.
func (e *Engine) swap(ctx context.Context, g *group, swaps []Swap) (o Outcome) {
	if timed, ok := e.store.(Timed); ok {
		o.Current, o.Swapped, o.Err = timed.CompareAndSwapAt(ctx, g.now, swaps...)
	} else {
		o.Current, o.Swapped, o.Err = e.store.CompareAndSwap(ctx, swaps...)
	}
	o.check(len(swaps))
	e.note(ctx, g, o.Err)
	return o
}

// swapTogether tries the swaps of several groups in one round trip, and settles them. What
// is no answer to all of them is none to any: each may have been applied.
func (e *Engine) swapTogether(ctx context.Context, groups []*group) {
	keys := 0
	for _, g := range groups {
		keys += len(g.holds)
	}
	all, swaps := make([]Swap, 0, keys), make([][]Swap, 0, len(groups)) // one array is cheaper than one for each
	for _, g := range groups {
		start := len(all)
		all = g.appendSwaps(all)
		swaps = append(swaps, all[start:len(all):len(all)])
	}
	outcomes := e.batcher.CompareAndSwapBatch(ctx, swaps...)
	if len(outcomes) != len(groups) {
		err := fmt.Errorf("storage: the store answered with %d outcomes to %d groups", len(outcomes), len(groups))
		outcomes = slices.Repeat([]Outcome{{Err: err}}, len(groups))
	}
	for i, g := range groups {
		outcomes[i].check(len(swaps[i]))
		e.note(ctx, g, outcomes[i].Err)
		g.settle(e.seen, swaps[i], outcomes[i])
	}
}

// note has what came of a round trip for g taken in, if that is asked for.
func (e *Engine) note(ctx context.Context, g *group, err error) {
	if e.outage.patience > 0 {
		cut := errors.Is(err, context.Canceled) || ctx.Err() != nil && time.Now().Before(g.calls[0].deadline)
		e.outage.note(err, cut)
	}
}

// check makes an error of a conflict that does not tell what is stored.
func (o *Outcome) check(swaps int) {
	if refused := o.Err == nil && !o.Swapped; refused && len(o.Current) != swaps {
		o.Err = NotApplied(fmt.Errorf("storage: the store answered with %d records to %d swaps", len(o.Current), swaps))
	}
}
