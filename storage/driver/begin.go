package driver

import (
	"context"

	"github.com/sluice-go/sluice/storage"
)

// BeginSwap makes the first checks of CompareAndSwap for a store with a database. It returns the
// keys of the swaps, or the error of [Check]. If ctx has ended, it returns the error of ctx wrapped
// by [storage.NotApplied].
func BeginSwap(ctx context.Context, swaps []storage.Swap) (keys []string, err error) {
	if err := Check(swaps); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, storage.NotApplied(err)
	}
	keys = make([]string, len(swaps))
	for i := range swaps {
		keys[i] = swaps[i].Key
	}
	return keys, nil
}

// BeginBatch makes the first checks of a batch for a [Server]. It returns the error of [CheckKeys].
// If ctx has ended, it returns the error of ctx wrapped by [storage.NotApplied].
func BeginBatch(ctx context.Context, b *Batch) error {
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	return CheckKeys(b.Keys)
}
