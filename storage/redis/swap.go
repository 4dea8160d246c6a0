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

// CompareAndSwap implements [storage.Store]. It sends one script, and sends it again in full if the
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
	if err := s.checkSamePlace(keys); err != nil {
		return nil, false, err
	}
	c, err := s.send(ctx, swaps, keys, false)
	if err == nil && redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
		c, err = s.send(ctx, swaps, keys, true)
	}
	if err != nil {
		return nil, false, err
	}
	return c.readReply()
}

// swapCmd is the command that swaps.
type swapCmd struct {
	noRetryCmd
	store   *Store
	swaps   []storage.Swap
	tracker writeTracker
	args    arguments
}

// send sends the script and waits for its reply. It returns an error only if ctx ends first.
func (s *Store) send(ctx context.Context, swaps []storage.Swap, keys []string, inFull bool) (*swapCmd, error) {
	c := &swapCmd{store: s, swaps: swaps}
	c.fill(ctx, keys, inFull)
	err := s.doUntilDone(ctx, func(client redis.UniversalClient) error {
		_ = client.Process(ctx, c.noRetryCmd)
		return nil
	})
	if err != nil {
		return nil, s.commandFailure(&c.tracker, err)
	}
	return c, nil
}

// fill creates the command. It has the hash of the script, or the whole script if inFull is true.
func (c *swapCmd) fill(ctx context.Context, keys []string, inFull bool) {
	script := swapSeveral
	if len(c.swaps) == 1 {
		script = swapOne
	}
	c.store.begin(&c.args, &c.tracker, script, inFull, keys, 4*len(c.swaps))
	for i := range c.swaps {
		c.args.addSwap(&c.swaps[i])
	}
	c.noRetryCmd = noRetryCmd{redis.NewCmd(ctx, c.args.args...)}
	c.SetFirstKeyPos(firstKey)
}

var errReplyForm = errors.New("the reply of the script has an unexpected form")

// readReply reads the reply of the script.
func (c *swapCmd) readReply() (current []storage.Record, swapped bool, err error) {
	list, _ := c.Val().([]any)
	if len(list) != 1 {
		return nil, false, c.store.commandFailure(&c.tracker, cmp.Or(c.Err(), errReplyForm))
	}
	switch reply := list[0].(type) {
	case int64:
		return nil, true, nil
	case []any:
		current, err = c.readRecords(reply)
		return current, false, err
	case error:
		return nil, false, c.store.failure(reply)
	}
	return nil, false, c.store.failure(errReplyForm)
}

// readRecords reads the stored records after a conflict.
func (c *swapCmd) readRecords(found []any) ([]storage.Record, error) {
	if len(found) != len(c.swaps) {
		return nil, c.store.failure(errReplyForm)
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
