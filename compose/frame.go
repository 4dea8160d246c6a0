package compose

import (
	"encoding/binary"
	"slices"

	"github.com/sluice-go/sluice/algo"
)

const (
	tag     = 'a'
	version = 1
)

// A frame hands out the states of a stack's parts one after the other. Damage
// shows in close: until then what next gives need not be what was stored.
type frame struct {
	rest    []byte
	framed  bool // false for a key never seen: every part is empty
	used    bool // some part was not empty
	damaged bool
}

func openFrame(state []byte) (frame, error) {
	switch {
	case len(state) == 0:
		return frame{}, nil
	case state[0] != tag || len(state) < 2 || state[1] < version:
		return frame{}, algo.ErrState
	case state[1] > version:
		return frame{}, algo.ErrStateVersion
	}
	return frame{rest: state[2:], framed: true}, nil
}

// next is the state of the next part, which must not be modified.
func (f *frame) next() []byte {
	if !f.framed {
		return nil
	}
	length, n := binary.Uvarint(f.rest)
	overlong := n > 1 && f.rest[n-1] == 0
	if n <= 0 || overlong || length > uint64(len(f.rest)-n) {
		f.damaged = true
		return nil
	}
	own := f.rest[n : n+int(length)]
	f.rest = f.rest[n+int(length):]
	f.used = f.used || length > 0
	return own
}

// close reports whether the frame was that of as many parts as were asked for.
func (f *frame) close() error {
	if f.damaged || len(f.rest) > 0 || f.framed && !f.used {
		return algo.ErrState
	}
	return nil
}

// putLength writes the length of what follows b[at] into the byte kept for it
// there, making room if one byte is too little.
func putLength(b []byte, at int) []byte {
	n := len(b) - at - 1
	if n < 1<<7 {
		b[at] = byte(n)
		return b
	}
	var length [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(length[:], uint64(n))
	return slices.Replace(b, at, at+1, length[:k]...)
}
