package redis

import (
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// noRetryCmd is a command that the client must not retry by itself, because a retry of a swap that
// was applied would conflict with the first attempt.
type noRetryCmd struct{ *redis.Cmd }

func (noRetryCmd) NoRetry() bool { return true }

// writeTracker is an argument of a command. It records whether the command was ever written to a
// connection, because the client calls MarshalBinary just before it writes. A call that fails or
// ends earlier, while the client dials, greets the server or waits for a connection of its pool,
// has applied nothing. After cancel, the command cannot be written later either.
type writeTracker struct {
	text  []byte
	state atomic.Int32
}

const (
	unsent int32 = iota
	written
	cancelled
)

var errCancelled = errors.New("redis: the caller has left")

// MarshalBinary implements encoding.BinaryMarshaler. It may be called again
// if a node of a cluster redirects the command to another.
func (t *writeTracker) MarshalBinary() ([]byte, error) {
	if !t.state.CompareAndSwap(unsent, written) && t.state.Load() == cancelled {
		return nil, errCancelled
	}
	return t.text, nil
}

// cancel prevents the command from being written, and reports whether it was in time.
func (t *writeTracker) cancel() bool {
	return t.state.CompareAndSwap(unsent, cancelled) || t.state.Load() == cancelled
}

// String is for hooks that log or trace commands.
func (t *writeTracker) String() string { return string(t.text) }
