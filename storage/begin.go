package storage

import "context"

// BeginBatch is how CompareAndSwapBatch of a [Batcher] begins. It answers the groups
// that need no database: those that [Check] finds wrong fail, and all do if a key occurs
// in two or ctx has ended, proving that nothing was applied; those of no swaps swap. The
// others are open: the store tries them, by their index, and fills in their outcomes,
// which are zero. If none is open it sends nothing.
func BeginBatch(ctx context.Context, groups [][]Swap) (outcomes []Outcome, open []int) {
	outcomes, open = make([]Outcome, len(groups)), make([]int, 0, len(groups))
	twice, ended := checkDuplicateGroups(groups), ctx.Err()
	for i, group := range groups {
		o := &outcomes[i]
		if o.Err = twice; o.Err == nil {
			o.Err = Check(group)
		}
		switch {
		case o.Err != nil:
		case ended != nil:
			o.Err = NotApplied(ended)
		case len(group) == 0:
			o.Swapped = true
		default:
			open = append(open, i)
		}
	}
	return outcomes, open
}
