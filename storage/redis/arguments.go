package redis

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// arguments are the arguments of a command. Their bytes are in one buffer, and the client gets
// pointers to them. Strings would be allocated twice each.
type arguments struct {
	args   []any
	each   []argument
	text   []byte
	inline struct { // the memory for a command with one key
		args [8]any
		each [5]argument
		text [208]byte
	}
}

// argument is an argument whose bytes the client reads when it writes them.
type argument []byte

// MarshalBinary implements encoding.BinaryMarshaler.
func (a *argument) MarshalBinary() ([]byte, error) { return *a, nil }

// String is for hooks that log or trace commands. Traces must be valid UTF-8, but versions and the
// lengths in keys are not.
func (a *argument) String() string {
	quoted := strconv.QuoteToASCII(string(*a))
	return quoted[1 : len(quoted)-1]
}

// init allocates memory for n arguments after the first three.
func (a *arguments) init(n int) {
	if n <= len(a.inline.each) {
		a.args, a.each, a.text = a.inline.args[:0], a.inline.each[:0], a.inline.text[:0]
		return
	}
	const average = 24 // bytes of an argument
	a.args, a.each, a.text = make([]any, 0, 3+n), make([]argument, 0, n), make([]byte, 0, average*n)
}

// add adds an argument: the bytes by which text is longer than a.text.
func (a *arguments) add(text []byte) {
	a.each = append(a.each, text[len(a.text):len(text):len(text)])
	a.args = append(a.args, &a.each[len(a.each)-1])
	a.text = text
}

// addSwap adds four arguments: the old version, the new record, its TTL in ms, and its Until in ms
// since 1970. An argument is empty if the swap does not have it.
func (a *arguments) addSwap(s *storage.Swap) {
	if s.Old == 0 {
		a.add(a.text)
	} else {
		a.add(appendRecord(a.text, storage.Record{Version: s.Old}))
	}
	if s.New.Version == 0 {
		a.add(a.text)
	} else {
		a.add(appendRecord(a.text, s.New))
	}
	until := s.UntilUnix(time.Millisecond)
	if s.TTL == 0 || until == storage.FarUntil { // it never expires
		a.add(a.text)
		a.add(a.text)
		return
	}
	a.add(strconv.AppendInt(a.text, milliseconds(s.TTL), 10))
	if until == 0 {
		a.add(a.text)
	} else {
		a.add(strconv.AppendInt(a.text, until, 10))
	}
}

// appendRecord appends the stored form of a record: its version, then its state.
func appendRecord(dst []byte, r storage.Record) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(r.Version)), r.State...)
}

// milliseconds returns d in ms, rounded up.
func milliseconds(d time.Duration) int64 { return int64((d-1)/time.Millisecond) + 1 }
