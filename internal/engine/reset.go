package engine

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage/driver"
)

// Reset deletes the record of a stored key, and reports whether there was one. Its errors are those of Decide, and
// storage.ErrKey. With an error existed is false, because a round trip may still use the request.
func (e *Engine) Reset(ctx context.Context, key string) (existed bool, err error) {
	r := &Request{
		Items:     []driver.Item{{Key: driver.RuleKey{Rule: key}}}, // its text is the key
		Uses:      []driver.Use{{Op: driver.Reset}},
		Evaluator: deletion{},
	}
	_, err = e.Decide(ctx, r)
	return err == nil && r.Items[0].Next.Verb == driver.Delete, err
}

// deletion deletes the records of a request.
type deletion struct{}

// Evaluate implements Evaluator.
func (deletion) Evaluate(_ time.Time, items []driver.Item, _ bool) (applied int, err error) {
	for i := range items {
		if items[i].Found.Version != 0 {
			items[i].Next.Verb = driver.Delete
		}
	}
	return 0, nil
}

// Denied implements Evaluator.
func (deletion) Denied() (retryAfter time.Duration, denied bool) { return 0, false }
