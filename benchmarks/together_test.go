package benchmarks

import (
	"context"
	"testing"
)

// together is a floor that sends at once what all callers ask who are there, up to
// 64 of them, with so many senders.
func together(t testing.TB, senders int, count int64, send func(ctx context.Context, keys []string) error) decider {
	type question struct {
		key    string
		answer chan error
	}
	asked := make(chan question, 1024)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	sender := func() {
		for {
			var q question
			select {
			case q = <-asked:
			case <-ctx.Done():
				return
			}
			var keys []string
			var answers []chan error
			for more := true; more; {
				keys, answers = append(keys, q.key), append(answers, q.answer)
				if more = len(keys) < 64; more {
					select {
					case q = <-asked:
					default: // another sender may have taken what was there
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
		asked <- question{key, answer}
		return count > 1, <-answer
	}
}
