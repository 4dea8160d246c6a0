package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// CompareAndSwap implements [storage.Store]. It is one script, which is sent again in full if the
// server does not know it.
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	if err := driver.Check(swaps); err != nil {
		return nil, false, err
	}
	if err := ctx.Err(); err != nil {
		return nil, false, storage.NotApplied(err)
	}
	if len(swaps) == 0 {
		return nil, true, nil
	}
	keys := make([]string, len(swaps))
	for i := range swaps {
		keys[i] = swaps[i].Key
	}
	if err := s.checkKeys(keys); err != nil {
		return nil, false, err
	}
	c, err := s.send(ctx, swaps, keys, false)
	if err == nil && redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
		c, err = s.send(ctx, swaps, keys, true)
	}
	if err != nil {
		return nil, false, err
	}
	return c.settle()
}

// swapping is a run of the script that swaps.
type swapping struct {
	noRetryCmd
	store   *Store
	swaps   []storage.Swap
	tracker writeTracker
	words   words
}

// send sends the script and waits for its reply. The error is that of a context that ended first.
func (s *Store) send(ctx context.Context, swaps []storage.Swap, keys []string, inFull bool) (*swapping, error) {
	c := &swapping{store: s, swaps: swaps}
	c.fill(ctx, keys, inFull)
	err := s.within(ctx, func(client redis.UniversalClient) error {
		_ = client.Process(ctx, c.noRetryCmd)
		return nil
	})
	if err != nil {
		return nil, s.unansweredBy(&c.tracker, err)
	}
	return c, nil
}

// fill fills in the command, with the script's hash or in full.
func (c *swapping) fill(ctx context.Context, keys []string, inFull bool) {
	script, w := several, &c.words
	if len(c.swaps) == 1 {
		script = single
	}
	c.store.begin(w, &c.tracker, script, inFull, keys, 4*len(c.swaps))
	for i := range c.swaps {
		w.addSwap(&c.swaps[i])
	}
	c.noRetryCmd = noRetryCmd{redis.NewCmd(ctx, w.args...)}
	c.SetFirstKeyPos(firstKey)
}

var errAnswer = errors.New("the script's answer has another shape")

// settle reads the script's answer.
func (c *swapping) settle() (current []storage.Record, swapped bool, err error) {
	answer, _ := c.Val().([]any)
	if len(answer) != 1 {
		return nil, false, c.store.unansweredBy(&c.tracker, cmp.Or(c.Err(), errAnswer))
	}
	switch reply := answer[0].(type) {
	case int64:
		return nil, true, nil
	case []any:
		current, err = c.conflict(reply)
		return current, false, err
	case error:
		return nil, false, c.store.failed(reply)
	}
	return nil, false, c.store.failed(errAnswer)
}

// conflict reads what is stored.
func (c *swapping) conflict(found []any) ([]storage.Record, error) {
	if len(found) != len(c.swaps) {
		return nil, c.store.failed(errAnswer)
	}
	current := make([]storage.Record, len(found))
	for i := range found {
		value, ok := found[i].(string)
		if !ok {
			continue
		}
		r, err := decode([]byte(value))
		if err != nil {
			return nil, storage.NotApplied(fmt.Errorf("%w: key %.40q", err, c.store.key(c.swaps[i].Key)))
		}
		current[i] = r
	}
	return current, nil
}
