package redis

import (
	"cmp"
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage"
)

// once is a command that the client must not send again by itself: a second try
// of a write that was applied would lose against the first.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// command is one run of the script.
type command struct {
	once
	calls  []*call
	keys   int
	ticket *ticket
}

// mostKeys is how many keys share a command: the server does nothing else meanwhile.
const mostKeys = 64

// share has calls share commands, where one server has all keys. A script costs the
// server and the client about as much as what it does for one key.
func (s *Store) share(calls []*call) (commands []*command) {
	apart, start := s.apart.Load(), 0
	var c *command
	for i, call := range calls {
		if c == nil || apart || c.keys+len(call.swaps) > mostKeys {
			c, start = new(command), i
			commands = append(commands, c)
		}
		c.calls = calls[start : i+1]
		c.keys += len(call.swaps)
	}
	return commands
}

// send runs the calls in one round trip. In further ones it runs those again that the
// server has refused to run: it does not know a script, or the keys of a command lie on
// several servers, or are not all allowed.
func (s *Store) send(ctx context.Context, calls []*call) {
	refused := s.exchange(ctx, s.share(calls), false)
	for range 2 {
		if len(refused) == 0 {
			return
		}
		var again []*call
		for _, c := range refused {
			again = append(again, c.calls...)
		}
		refused = s.exchange(ctx, s.share(again), true)
	}
	for _, c := range refused {
		c.fail(c.Err())
	}
}

// exchange sends commands and settles them, but for those that were refused.
func (s *Store) exchange(ctx context.Context, commands []*command, inFull bool) (refused []*command) {
	for _, c := range commands {
		c.make(ctx, inFull)
	}
	ended := s.timely(ctx, func(c redis.UniversalClient) error { process(ctx, c, commands); return nil })
	for _, c := range commands {
		switch {
		case ended != nil:
			c.fail(ended)
		case s.refused(c):
			refused = append(refused, c)
		default:
			c.settle()
		}
	}
	return refused
}

func (s *Store) refused(c *command) bool {
	err := c.Err()
	switch {
	case err == nil || c.Val() != nil:
		return false
	case len(c.calls) > 1 && (redis.HasErrorPrefix(err, "CROSSSLOT") || redis.HasErrorPrefix(err, "NOPERM")):
		s.apart.Store(true)
		return true
	}
	return redis.HasErrorPrefix(err, "NOSCRIPT")
}

func process(ctx context.Context, client redis.UniversalClient, commands []*command) {
	if len(commands) == 1 {
		_ = client.Process(ctx, commands[0].once)
		return
	}
	pipe := client.Pipeline()
	for _, c := range commands {
		_ = pipe.Process(ctx, c.once)
	}
	_, _ = pipe.Exec(ctx)
}

// singles reports whether every group is of one key.
func (c *command) singles() bool { return c.keys == len(c.calls) }

// make makes the command, by the script's hash or in full.
func (c *command) make(ctx context.Context, inFull bool) {
	script := together
	switch {
	case c.keys == 1:
		script = single
	case c.singles():
		script = each
	}
	name := "evalsha"
	c.ticket = &ticket{text: script.hash}
	if inFull {
		name, c.ticket.text = "eval", script.text
	}
	w := newWords(4*c.keys+len(c.calls), name, c.ticket, c.keys)
	for _, call := range c.calls {
		for i := range call.swaps {
			w.add(call.store.appendKey(w.text, call.swaps[i].Key))
		}
	}
	for _, call := range c.calls {
		if !c.singles() {
			w.add(strconv.AppendInt(w.text, int64(len(call.swaps)), 10))
		}
		for i := range call.swaps {
			w.addSwap(&call.swaps[i])
		}
	}
	c.once = once{redis.NewCmd(ctx, w.args...)}
	const first = 3
	c.SetFirstKeyPos(first)
	w.args[first] = string(w.each[0]) // which clients of a cluster place by what they print
}

// settle reads the answers. Those that came before the connection failed count, though
// the client then gives its error to all commands of a pipeline.
func (c *command) settle() {
	answers, _ := c.Val().([]any)
	if len(answers) != len(c.calls) {
		c.fail(cmp.Or(c.Err(), errAnswer))
		return
	}
	for i, call := range c.calls {
		call.settle(answers[i])
	}
}

func (c *command) fail(err error) {
	never := c.ticket.withdraw()
	for _, call := range c.calls {
		call.outcome.Err = call.store.unanswered(err)
		if never {
			call.outcome.Err = storage.NotApplied(call.outcome.Err)
		}
	}
}
