package driver

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/sluice-go/sluice/storage"
)

// BeginList checks the arguments of [storage.Lister], whose List calls it first.
func BeginList(ctx context.Context, max int) error {
	if max < 1 {
		return fmt.Errorf("storage: a page must have at least 1 key, got a max of %d", max)
	}
	return ctx.Err()
}

// ListRange returns the first and the last key that can be on the page after cursor, for a List of a store that sorts keys by
// their bytes.
func ListRange(prefix, cursor string) (first, last string) {
	return cmp.Or(cursor, prefix), prefix + strings.Repeat("\xff", storage.MaxKey)
}

// NextCursor returns the cursor after a page of up to max keys, for ListRange.
func NextCursor(keys []string, max int) string {
	if len(keys) < max {
		return ""
	}
	return keys[len(keys)-1] + "\x00" // the least key that is greater
}
