package benchmarks

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// batched returns a floor that sends the keys of all waiting callers in one batch, at most 64. It
// has that many senders.
func batched(t testing.TB, senders int, count int64, send func(ctx context.Context, keys []string) error) decideFunc {
	type request struct {
		key    string
		answer chan error
	}
	requests := make(chan request, 1024)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	sender := func() {
		for {
			var q request
			select {
			case q = <-requests:
			case <-ctx.Done():
				return
			}
			var keys []string
			var answers []chan error
			for more := true; more; {
				keys, answers = append(keys, q.key), append(answers, q.answer)
				if more = len(keys) < 64; more {
					select {
					case q = <-requests:
					default: // another sender may have taken the rest
						more = false
					}
				}
			}
			err := send(ctx, keys)
			for _, answer := range answers {
				answer <- err
			}
		}
	}
	for range senders {
		go sender()
	}
	return func(_ context.Context, key string) (bool, error) {
		answer := make(chan error, 1)
		requests <- request{key, answer}
		return count > 1, <-answer
	}
}

// oneFsync writes and flushes one page for all waiting callers: the least work that durable
// decisions need.
var oneFsync = serverLimiter{name: "floor: one fsync, batched", open: func(t testing.TB, count int64, _ time.Duration) decideFunc {
	const size, pages = 4096, 1024
	file, err := os.Create(filepath.Join(t.TempDir(), "pages"))
	must(t, err)
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
