package redis

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// script is a Lua script and its SHA-1 hash.
type script struct {
	text, hash []byte
	leaves     []*algo.Program // of a script of scriptOf
	isStack    bool            // it has the code for stacks
}

func newScript(text string) *script {
	return &script{text: []byte(text), hash: []byte(redis.NewScript(text).Hash())}
}

// command runs a script.
type command struct {
	*redis.StringSliceCmd
	script  *script
	batch   *driver.Batch // of Run
	err     error         // of the command, or of the context if that ended first
	tracker writeTracker
	args    []any // the name, the hash or text of the script, the number of keys, the keys and the arguments of the script
}

// firstKey is the index of the first key in the arguments.
const firstKey = 3

// NoRetry prevents that the client sends the command again by itself. If the first attempt of a swap
// was applied, a second attempt would report a conflict.
func (c *command) NoRetry() bool { return true }

// newCommand returns a command with the hash, the keys and room for this many further arguments.
func (s *Store) newCommand(script *script, keys []string, further int) *command {
	c := &command{script: script, args: make([]any, 0, firstKey+len(keys)+further)}
	c.tracker.text = script.hash
	c.args = append(c.args, "evalsha", &c.tracker, len(keys))
	for _, key := range keys {
		c.args = append(c.args, s.key(key))
	}
	return c
}

// send sends commands in one round trip, and again in full those whose script the server does not know. It returns when ctx
// ends, or only at its deadline if untilDeadline is true. go-redis ignores cancellations, and without ContextTimeoutEnabled
// also deadlines.
func (s *Store) send(ctx context.Context, untilDeadline bool, commands ...*command) {
	for _, c := range commands {
		c.StringSliceCmd = redis.NewStringSliceCmd(ctx, c.args...)
	}
	process := func(ctx context.Context) (struct{}, error) {
		if len(commands) == 1 {
			_ = s.client.Process(ctx, commands[0])
			return struct{}{}, nil
		}
		pipe := s.client.Pipeline()
		for _, c := range commands {
			_ = pipe.Process(ctx, c)
		}
		_, err := pipe.Exec(ctx)
		for _, c := range commands {
			if c.Err() == nil && c.Val() == nil { // a hook of the client has not sent it
				c.SetErr(err)
			}
		}
		return struct{}{}, nil
	}
	var ended error
	if _, limited := ctx.Deadline(); untilDeadline && (!limited || s.endsInTime && !driver.MayCutConnection(ctx)) {
		_, ended = process(ctx)
	} else {
		_, ended = driver.Detached(ctx, process)
	}
	var unknown []*command
	for _, c := range commands {
		if c.err = ended; ended == nil {
			c.err = c.Err()
		}
		if redis.HasErrorPrefix(c.err, "NOSCRIPT") && c.args[0] == "evalsha" {
			c.args[0], c.tracker = "eval", writeTracker{text: c.script.text}
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		s.send(ctx, untilDeadline, unknown...)
	}
}

// writeTracker is an argument of a command. It records whether the client wrote the command to a connection, because the
// client calls MarshalBinary just before. If the call ended earlier, for instance while the client dialed, nothing was
// applied. After cancel, the client writes a command without a script instead, which changes nothing.
type writeTracker struct {
	text  []byte
	state atomic.Int32
}

const (
	unsent int32 = iota
	written
	cancelled
)

// MarshalBinary implements encoding.BinaryMarshaler. The client calls it again if a node of a
// cluster redirects the command to another node. After an error, the client would close the connection, which later calls need.
func (t *writeTracker) MarshalBinary() ([]byte, error) {
	if !t.state.CompareAndSwap(unsent, written) && t.state.Load() == cancelled {
		return nil, nil
	}
	return t.text, nil
}

// cancel prevents a write of the command. It reports whether the command was not written yet.
func (t *writeTracker) cancel() bool {
	return t.state.CompareAndSwap(unsent, cancelled) || t.state.Load() == cancelled
}

// String is for hooks that log or trace commands.
func (t *writeTracker) String() string { return string(t.text) }

// recordText returns the stored form of a record: its version, then its state. It is empty for the zero Record.
func recordText(r storage.Record) string {
	if r.Version == 0 {
		return ""
	}
	return string(append(binary.BigEndian.AppendUint64(nil, uint64(r.Version)), r.State...))
}

// milliseconds returns d in ms, rounded up.
func milliseconds(d time.Duration) int64 { return int64((d-1)/time.Millisecond) + 1 }
