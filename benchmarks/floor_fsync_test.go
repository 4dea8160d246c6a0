package benchmarks

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// oneFsync writes a page, and waits until it is on the disk, for whatever callers are
// there at once: the least that durable decisions can cost.
var oneFsync = contender{name: "floor: one fsync together", open: func(t testing.TB, count int64, _ time.Duration) decider {
	const size, pages = 4096, 1024
	file, err := os.Create(filepath.Join(t.TempDir(), "pages"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	page, n := make([]byte, size), int64(0)
	return together(t, 1, count, func(context.Context, []string) error {
		n++
		if _, err := file.WriteAt(page, n%pages*size); err != nil {
			return err
		}
		return file.Sync()
	})
}}
