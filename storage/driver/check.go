package driver

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// BeginSwap checks the arguments of CompareAndSwap, which calls it first, and returns the keys. It can return [storage.ErrKey],
// [storage.ErrDuplicateKey], [storage.ErrSwap], or the error of an ended context with [storage.ErrNotApplied].
func BeginSwap(ctx context.Context, swaps []storage.Swap) (keys []string, err error) {
	keys = make([]string, len(swaps))
	for i := range swaps {
		s := &swaps[i]
		switch {
		case s.New.Version == 0 && len(s.New.State) > 0:
			return nil, invalid(s.Key, "it has a new state of %d bytes without a version; use storage.NewVersion", len(s.New.State))
		case s.TTL < 0:
			return nil, invalid(s.Key, "the TTL is %v; it must not be negative", s.TTL)
		case s.Priority > storage.UsedUp:
			return nil, invalid(s.Key, "the priority %d is unknown", s.Priority)
		}
		keys[i] = s.Key
	}
	return keys, begin(ctx, keys)
}

// BeginBatch is [BeginSwap] for a batch.
func BeginBatch(ctx context.Context, b *Batch) error { return begin(ctx, b.Keys) }

// few is a number of keys for which comparing all pairs is faster than a map, and does not allocate.
const few = 16

func begin(ctx context.Context, keys []string) error {
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	if err := CheckLoad(keys); err != nil {
		return err
	}
	var known map[string]bool // nil for few keys
	if len(keys) > few {
		known = make(map[string]bool, len(keys))
	}
	for i, key := range keys {
		if known[key] || known == nil && slices.Contains(keys[:i], key) {
			return &storage.KeyError{Key: key, Err: fmt.Errorf("%w, at index %d", storage.ErrDuplicateKey, i)}
		}
		if known != nil {
			known[key] = true
		}
	}
	return nil
}

// KeepFor returns how long a store must keep a record that was decided at decided, when its own clock showed stored. The TTL must
// pass by both clocks. 0 means for ever.
func KeepFor(ttl time.Duration, decided, stored time.Time) time.Duration {
	ahead := max(0, decided.Sub(stored))
	if ttl == 0 || ttl > math.MaxInt64-ahead {
		return 0
	}
	return ttl + ahead
}

// invalid returns storage.ErrSwap for a key.
func invalid(key, format string, args ...any) error {
	return &storage.KeyError{Key: key, Err: fmt.Errorf("%w: "+format, append([]any{storage.ErrSwap}, args...)...)}
}

// CheckLoad returns [storage.ErrKey] if a key is too long. Load calls it first.
func CheckLoad(keys []string) error {
	for _, key := range keys {
		if len(key) > storage.MaxKey {
			return fmt.Errorf("%w: it has %d bytes, but at most %d are allowed; use driver.RuleKey, which shortens keys", storage.ErrKey, len(key), storage.MaxKey)
		}
	}
	return nil
}
