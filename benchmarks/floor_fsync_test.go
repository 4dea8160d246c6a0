package benchmarks

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// oneFsync writes and flushes one page for all waiting callers: the least work that durable
// decisions need.
var oneFsync = serverLimiter{name: "floor: one fsync, batched", open: func(t testing.TB, count int64, _ time.Duration) decideFunc {
	const size, pages = 4096, 1024
	file, err := os.Create(filepath.Join(t.TempDir(), "pages"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	page, n := make([]byte, size), int64(0)
	return batched(t, 1, count, func(context.Context, []string) error {
		n++
		if _, err := file.WriteAt(page, n%pages*size); err != nil {
			return err
		}
		return file.Sync()
	})
}}
