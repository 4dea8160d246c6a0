package driver

import (
	"context"

	"github.com/sluice-go/sluice/storage"
)

// BeginSwap does what a store on a server does first in CompareAndSwap. It returns the keys of the
// swaps, or the error of [Check], or an error that the context has ended before anything was sent.
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

// BeginBatch does what a [Server] does first with a batch. It returns the error of [CheckKeys], or an
// error that the context has ended before anything was sent.
func BeginBatch(ctx context.Context, b *Batch) error {
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	return CheckKeys(b.Keys)
}
