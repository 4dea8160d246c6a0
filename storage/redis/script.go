package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage"
)

// swap compares the first 8 bytes of every key with the old version (an empty
// one: the key must be absent), and writes when all of them match. Three
// arguments for each key: old version, new record (empty: delete), TTL in ms
// (empty: none).
const source = `
local found, same = {}, true
for i, key in ipairs(KEYS) do
	found[i] = redis.call('GET', key)
	local old = ARGV[3*i-2]
	if found[i] then
		same = same and old ~= '' and string.sub(found[i], 1, 8) == old
	else
		same = same and old == ''
	end
end
if not same then
	return found
end
for i, key in ipairs(KEYS) do
	local new, ttl = ARGV[3*i-1], ARGV[3*i]
	if new == '' then
		if found[i] then redis.call('DEL', key) end
	elseif ttl == '' then
		redis.call('SET', key, new)
	else
		redis.call('SET', key, new, 'PX', ttl)
	end
end
return 1
`

var swap = redis.NewScript(source)

// once is a command that the client must not send again by itself: a second try
// of a write that was applied would lose against the first.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// call is one group on its way.
type call struct {
	store   *Store
	swaps   []storage.Swap
	outcome *storage.Outcome
	cmd     once
	ticket  *ticket
}

// command makes the command anew, by the script's hash or in full.
func (c *call) command(ctx context.Context, name, script string) {
	c.ticket = &ticket{text: script}
	args := make([]any, 0, 3+4*len(c.swaps))
	args = append(args, name, c.ticket, len(c.swaps))
	for i := range c.swaps {
		args = append(args, c.store.key(c.swaps[i].Key))
	}
	for i := range c.swaps {
		s := &c.swaps[i]
		old, value := []byte{}, []byte{}
		if s.Old != 0 {
			old = encode(storage.Record{Version: s.Old})
		}
		if s.New.Version != 0 {
			value = encode(s.New)
		}
		args = append(args, old, value, ttl(s.TTL))
	}
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(3)
	c.cmd = once{cmd}
}

// ttl is the TTL in whole milliseconds, rounded up.
func ttl(d time.Duration) any {
	if d == 0 {
		return ""
	}
	return int64((d-1)/time.Millisecond) + 1
}

// send runs the calls in one round trip, and in a second one those whose script
// the server does not know, which it therefore has not run.
func (s *Store) send(ctx context.Context, calls []*call) {
	unknown := s.exchange(ctx, calls, "evalsha", swap.Hash())
	if len(unknown) == 0 {
		return
	}
	for _, c := range s.exchange(ctx, unknown, "eval", source) {
		c.fail(c.cmd.Err())
	}
}

// exchange sends the calls and settles them, but for those whose script is
// unknown.
func (s *Store) exchange(ctx context.Context, calls []*call, name, script string) (unknown []*call) {
	for _, c := range calls {
		c.command(ctx, name, script)
	}
	ended := s.within(ctx, func(c redis.UniversalClient) error { process(ctx, c, calls); return nil })
	for _, c := range calls {
		if ended != nil {
			c.fail(ended)
		} else if err := c.cmd.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			unknown = append(unknown, c)
		} else {
			c.settle(err)
		}
	}
	return unknown
}

func process(ctx context.Context, client redis.UniversalClient, calls []*call) {
	if len(calls) == 1 {
		_ = client.Process(ctx, calls[0].cmd)
		return
	}
	pipe := client.Pipeline()
	for _, c := range calls {
		_ = pipe.Process(ctx, c.cmd)
	}
	_, _ = pipe.Exec(ctx)
}

// settle reads the reply: 1, or what is stored. One that came before the
// connection failed counts, though the client then gives its error to all
// commands of a pipeline.
func (c *call) settle(err error) {
	switch reply := c.cmd.Val().(type) {
	case int64:
		c.outcome.Swapped = true
		return
	case []any:
		if len(reply) == len(c.swaps) {
			c.conflict(reply)
			return
		}
	}
	c.fail(err)
}

func (c *call) fail(err error) {
	c.outcome.Err = c.store.failed(err)
	if c.ticket.withdraw() {
		c.outcome.Err = storage.NotApplied(c.outcome.Err)
	}
}

// conflict takes in what is stored.
func (c *call) conflict(found []any) {
	current := make([]storage.Record, len(found))
	for i := range found {
		value, ok := found[i].(string)
		if !ok {
			continue
		}
		r, err := decode([]byte(value))
		if err != nil {
			c.outcome.Err = storage.NotApplied(fmt.Errorf("%w: key %q", err, c.store.key(c.swaps[i].Key)))
			return
		}
		current[i] = r
	}
	c.outcome.Current = current
}
