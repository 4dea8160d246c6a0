package accesslog

import (
	"encoding/binary"
	"time"
)

// A record is an entry as it waits for its turn: its length in four bytes, then
// numbers as varints and those texts that were asked for, each behind its length.

func appendRecord(dst []byte, e *Entry, input int, fields Fields) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.AppendVarint(dst, e.at.sec)
	late := uint64(0)
	if e.Late {
		late = 1
	}
	dst = binary.AppendUvarint(dst, uint64(e.at.nsec)<<1|late)
	dst = binary.AppendUvarint(dst, uint64(e.Line))
	dst = binary.AppendUvarint(dst, uint64(input))
	for f, text := range e.texts() {
		if fields&(1<<f) != 0 {
			dst = binary.AppendUvarint(dst, uint64(len(*text)))
			dst = append(dst, *text...)
		}
	}
	if fields&Status != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.Status))
	}
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}

// recordLen is the length of the record that b begins with.
func recordLen(b []byte) int {
	return int(binary.LittleEndian.Uint32(b))
}

// recordStamp is its time.
func recordStamp(b []byte) stamp {
	d := decoder(b[4:])
	sec := d.signed()
	return stamp{sec, int32(d.number() >> 1)}
}

// readRecord fills e, whose texts become views of b, and returns the index of its
// input. Fields that were not asked for are left alone.
func readRecord(b []byte, e *Entry, fields Fields) (input int) {
	d := decoder(b[4:])
	e.at.sec = d.signed()
	n := d.number()
	e.at.nsec, e.Late = int32(n>>1), n&1 == 1
	e.Time = time.Unix(e.at.sec, int64(e.at.nsec)).UTC()
	e.Line = int64(d.number())
	input = int(d.number())
	for f, text := range e.texts() {
		if fields&(1<<f) != 0 {
			*text = d.text()
		}
	}
	if fields&Status != 0 {
		e.Status = int(d.number())
	}
	return input
}

// texts are the fields that are text, each at the place of its bit in Fields.
func (e *Entry) texts() [7]*[]byte {
	return [7]*[]byte{&e.IP, &e.User, &e.Method, &e.Path, &e.Host, &e.Key, &e.Forwarded}
}

// decoder takes a record apart from its beginning.
type decoder []byte

func (d *decoder) number() uint64 {
	if b := *d; b[0] < 0x80 {
		*d = b[1:]
		return uint64(b[0])
	}
	v, n := binary.Uvarint(*d)
	*d = (*d)[n:]
	return v
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(*d)
	*d = (*d)[n:]
	return v
}

func (d *decoder) text() []byte {
	n := d.number()
	b := *d
	*d = b[n:]
	return b[:n:n]
}
