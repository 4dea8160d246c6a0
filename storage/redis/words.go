package redis

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// words are arguments of a command. Their bytes stand in one piece, and the client is
// handed pointers: as strings, each would be allocated twice.
type words struct {
	args []any
	each []word
	text []byte
	few  struct { // room for those of one key
		args [8]any
		each [5]word
		text [208]byte
	}
}

// word is an argument that the client asks for its bytes when it writes them.
type word []byte

// MarshalBinary implements encoding.BinaryMarshaler.
func (w *word) MarshalBinary() ([]byte, error) { return *w, nil }

// String is for those who show commands: hooks that log or trace. Traces must be text,
// which versions are not, and the lengths in keys.
func (w *word) String() string {
	quoted := strconv.QuoteToASCII(string(*w))
	return quoted[1 : len(quoted)-1]
}

// init makes room for so many, after three arguments that are as they are.
func (w *words) init(n int) {
	if n <= len(w.few.each) {
		w.args, w.each, w.text = w.few.args[:0], w.few.each[:0], w.few.text[:0]
		return
	}
	const length = 24 // of most, on the average
	w.args, w.each, w.text = make([]any, 0, 3+n), make([]word, 0, n), make([]byte, 0, length*n)
}

// add takes in what was appended to the text.
func (w *words) add(text []byte) {
	w.each = append(w.each, text[len(w.text):len(text):len(text)])
	w.args = append(w.args, &w.each[len(w.each)-1])
	w.text = text
}

// addSwap adds the old version, the new record, its TTL in ms and its Until in ms since
// 1970. Each of them is empty for none.
func (w *words) addSwap(s *storage.Swap) {
	if s.Old == 0 {
		w.add(w.text)
	} else {
		w.add(appendRecord(w.text, storage.Record{Version: s.Old}))
	}
	if s.New.Version == 0 {
		w.add(w.text)
	} else {
		w.add(appendRecord(w.text, s.New))
	}
	until := s.UntilUnix(time.Millisecond)
	if s.TTL == 0 || until == storage.FarUntil { // for ever
		w.add(w.text)
		w.add(w.text)
		return
	}
	w.add(strconv.AppendInt(w.text, milliseconds(s.TTL), 10))
	if until == 0 {
		w.add(w.text)
	} else {
		w.add(strconv.AppendInt(w.text, until, 10))
	}
}

// appendRecord appends a record as it is stored: its version, then its state.
func appendRecord(dst []byte, r storage.Record) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(r.Version)), r.State...)
}

// milliseconds are whole ones, rounded up.
func milliseconds(d time.Duration) int64 { return int64((d-1)/time.Millisecond) + 1 }
