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
	calls  []call
	keys   int
	ticket ticket
	words  words
}

// mostKeys is how many keys share a command: the server does nothing else meanwhile.
const mostKeys = 64

// share has calls share commands, where one server has all keys. A script costs the
// server and the client about as much as what it does for one key.
func (s *Store) share(calls []call) (commands []*command) {
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
func (s *Store) send(ctx context.Context, calls []call) {
	refused := s.exchange(ctx, s.share(calls), false)
	for range 2 {
		if len(refused) == 0 {
			return
		}
		var again []call
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
		s.fill(ctx, c, inFull)
	}
	ended := s.carry(ctx, commands)
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

// carry is within for what the client sends once only, however it fails. Where the
// client's timeouts end that by the deadline of a patient caller, it needs no goroutine,
// which costs as much as the way to the server.
func (s *Store) carry(ctx context.Context, commands []*command) error {
	if s.plain != nil && storage.Patient(ctx) {
		if client := s.inTime(ctx); client != nil {
			process(ctx, client, commands)
			return nil
		}
	}
	return s.within(ctx, func(c redis.UniversalClient) error { process(ctx, c, commands); return nil })
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

// fill fills in the command, with the script's hash or in full.
func (s *Store) fill(ctx context.Context, c *command, inFull bool) {
	script := together
	switch {
	case c.keys == 1:
		script = single
	case c.singles():
		script = each
	}
	w, counts := &c.words, 0
	if !c.singles() {
		counts = len(c.calls)
	}
	w.init(5*c.keys + counts)
	if inFull {
		c.ticket.text = script.text
		w.args = append(w.args, "eval", &c.ticket, c.keys)
	} else {
		c.ticket.text = script.hash
		w.args = append(w.args, "evalsha", &c.ticket, c.keys)
	}
	for _, call := range c.calls {
		for i := range call.swaps {
			w.add(s.appendKey(w.text, call.swaps[i].Key))
		}
	}
	for _, call := range c.calls {
		if counts > 0 {
			w.add(strconv.AppendInt(w.text, int64(len(call.swaps)), 10))
		}
		for i := range call.swaps {
			w.addSwap(&call.swaps[i])
		}
	}
	c.once = once{redis.NewCmd(ctx, w.args...)}
	const first = 3
	c.SetFirstKeyPos(first)
	if s.plain == nil {
		w.args[first] = string(w.each[0]) // which clients of a cluster place by what they print
	}
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
