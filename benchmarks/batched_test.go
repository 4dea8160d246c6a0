package benchmarks

import (
	"context"
	"testing"
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
