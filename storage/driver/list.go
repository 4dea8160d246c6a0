package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/storage"
)

// BeginList checks the arguments of List, which calls it first.
func BeginList(ctx context.Context, max int) error {
	if max < 1 {
		return fmt.Errorf("storage: a page must have at least 1 key, got a max of %d", max)
	}
	return ctx.Err()
}

// ListRange returns the least and the greatest key, both included, that the page after cursor can have. Use it if the store lists
// keys in the order of their bytes.
func ListRange(prefix, cursor string) (first, last string) {
	return cmp.Or(cursor, prefix), prefix + strings.Repeat("\xff", storage.MaxKey)
}

// CursorAfter returns the cursor after a page that ends with key, for ListRange.
func CursorAfter(key string) string { return key + "\x00" }

// ListRule returns a page of the keys of a rule, in all groups. prefix is the text of the rule (see [Rule]), or the beginning of
// one. A page can have fewer keys than max.
func ListRule(ctx context.Context, store storage.Lister, prefix, cursor string, max int) (keys []string, next string, err error) {
	// The keys without a group come first. Then come all keys that have one, because the groups are not known.
	const plain, grouped = "k", "{"
	kind, inner := plain, ""
	if cursor != "" {
		kind, inner = cursor[:1], cursor[1:]
	}
	begin := prefix
	if kind == grouped {
		begin = grouped
	}
	keys, next, err = store.List(ctx, begin, inner, max)
	if err != nil {
		return nil, "", err
	}
	switch {
	case next != "":
		next = kind + next
	case kind == plain:
		next = grouped
	}
	return slices.DeleteFunc(keys, func(key string) bool { return !isOf(key, prefix) }), next, nil
}

// isOf reports whether a stored key, without its group, begins with prefix.
func isOf(text, prefix string) bool {
	if strings.HasPrefix(text, "{") {
		_, text, _ = strings.Cut(text, "}")
	}
	return strings.HasPrefix(text, prefix)
}
