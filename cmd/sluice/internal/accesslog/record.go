package accesslog

import (
	"encoding/binary"
	"time"
)

// A record is the encoding of a waiting entry: its length in four bytes, then numbers as varints
// and the requested texts, each after its length.

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

// recordLen returns the length of the record at the beginning of b.
func recordLen(b []byte) int {
	return int(binary.LittleEndian.Uint32(b))
}

// recordStamp returns the time of a record.
func recordStamp(b []byte) stamp {
	d := decoder(b[4:])
	sec := d.signed()
	return stamp{sec, int32(d.number() >> 1)}
}

// readRecord fills e and returns the index of its input. The texts of e share the memory of b.
// Fields that were not requested stay unchanged.
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

// texts returns the text fields, each at the index of its bit in Fields.
func (e *Entry) texts() [7]*[]byte {
	return [7]*[]byte{&e.IP, &e.User, &e.Method, &e.Path, &e.Host, &e.Key, &e.Forwarded}
}

// decoder reads a record.
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
