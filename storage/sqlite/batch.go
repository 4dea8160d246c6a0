package sqlite

import "github.com/sluice-go/sluice/storage"

// batch is groups of swaps and what became of them. The database is asked about
// those that are open, and not at all if none is.
type batch struct {
	groups   [][]storage.Swap
	outcomes []storage.Outcome
	open     []int
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
	if !writes(w) {
		return nil, nil
	}
	return w, &b.outcomes[i]
}
