package sqlite

import (
	"context"

	"github.com/sluice-go/sluice/storage"
)

// batch is groups of swaps and what became of them. The database is asked about
// those that are open, and not at all if none is.
type batch struct {
	groups   [][]storage.Swap
	outcomes []storage.Outcome
	open     []int
}

// newBatch settles the groups that need no database: the wrongly asked, all of
// them if the context has ended, and those of no swaps, which swap trivially.
func newBatch(ctx context.Context, groups [][]storage.Swap) *batch {
	b := &batch{groups: groups, outcomes: make([]storage.Outcome, len(groups)), open: make([]int, 0, len(groups))}
	for i, err := range storage.CheckBatch(groups) {
		b.outcomes[i].Err = err
	}
	ended := ctx.Err()
	for i, group := range groups {
		o := &b.outcomes[i]
		switch {
		case o.Err != nil:
		case ended != nil:
			o.Err = storage.NotApplied(ended)
		case len(group) == 0:
			o.Swapped = true
		default:
			b.open = append(b.open, i)
		}
	}
	return b
}

// fail says of every open group that it failed.
func (b *batch) fail(err error) {
	for _, i := range b.open {
		b.outcomes[i] = storage.Outcome{Err: err}
	}
}

// only is the swap that alone is open, if it writes, and its outcome: a statement
// is a transaction by itself, and cheaper than one around it. Else nil.
func (b *batch) only() (*storage.Swap, *storage.Outcome) {
	if len(b.open) != 1 || len(b.groups[b.open[0]]) != 1 {
		return nil, nil
	}
	i := b.open[0]
	w := &b.groups[i][0]
	if w.Old == 0 && w.New.Version == 0 {
		return nil, nil
	}
	return w, &b.outcomes[i]
}
