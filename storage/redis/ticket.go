package redis

import (
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// once is a command that the client must not send again by itself: a second try
// of a write that was applied would lose against the first.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// ticket is an argument of a command that knows whether the command was ever
// written to a connection: the client asks for the bytes of an argument of this
// type just then. A call that fails or ends before, while the client dials,
// greets the server or waits for a connection of its pool, has applied nothing;
// and withdrawn, the command cannot be written later either.
type ticket struct {
	text  []byte
	state atomic.Int32
}

const (
	waiting int32 = iota
	written
	withdrawn
)

var errWithdrawn = errors.New("redis: the caller has left")

// MarshalBinary implements encoding.BinaryMarshaler. It may be called again:
// when a node of a cluster sends the command on to another.
func (t *ticket) MarshalBinary() ([]byte, error) {
	if !t.state.CompareAndSwap(waiting, written) && t.state.Load() == withdrawn {
		return nil, errWithdrawn
	}
	return t.text, nil
}

// withdraw reports whether the command has not been written, and will not be.
func (t *ticket) withdraw() bool {
	return t.state.CompareAndSwap(waiting, withdrawn) || t.state.Load() == withdrawn
}

// String is for those who show commands: hooks that log or trace.
func (t *ticket) String() string { return string(t.text) }
