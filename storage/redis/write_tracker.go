package redis

import (
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// noRetryCmd is a command that the client must not retry by itself. If the first attempt of a swap
// was applied, a second attempt would report a conflict.
type noRetryCmd struct{ *redis.Cmd }

func (noRetryCmd) NoRetry() bool { return true }

// writeTracker is an argument of a command. It records whether the client wrote the command to a
// connection: the client calls MarshalBinary just before it writes. If the call ended earlier, for
// instance while the client dialed or waited for a connection of its pool, nothing was applied.
// After cancel, the client cannot write the command any more.
type writeTracker struct {
	text  []byte
	state atomic.Int32
}

const (
	unsent int32 = iota
	written
	cancelled
)

var errCancelled = errors.New("redis: the call was cancelled")

// MarshalBinary implements encoding.BinaryMarshaler. The client calls it again if a node of a
// cluster redirects the command to another node.
func (t *writeTracker) MarshalBinary() ([]byte, error) {
	if !t.state.CompareAndSwap(unsent, written) && t.state.Load() == cancelled {
		return nil, errCancelled
	}
	return t.text, nil
}

// cancel prevents a write of the command. It reports whether the command was not written yet.
func (t *writeTracker) cancel() bool {
	return t.state.CompareAndSwap(unsent, cancelled) || t.state.Load() == cancelled
}

// String is for hooks that log or trace commands.
func (t *writeTracker) String() string { return string(t.text) }
