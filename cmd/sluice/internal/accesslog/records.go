package accesslog

import (
	"cmp"
	"encoding/binary"
	"time"
)

// record is a waiting entry. It has no pointers, which the garbage collector would have to follow.
type record struct {
	sec         int64 // since 1970
	line        int64
	nsec        int32
	input       int32
	start, size uint32 // of its texts
	status      int16
	late        bool
}

const recordSize = 40 // of a record, in bytes

func byTime(r, s record) int {
	if c := cmp.Compare(r.sec, s.sec); c != 0 {
		return c
	}
	return cmp.Compare(r.nsec, s.nsec)
}

// records holds waiting entries.
type records struct {
	list  []record
	texts []byte // of each record the requested texts, each after its length
}

func (b *records) size() int { return len(b.list)*recordSize + len(b.texts) }

func (b *records) reset() { b.list, b.texts = b.list[:0], b.texts[:0] }

// add adds the requested fields of e. It returns their size.
func (b *records) add(e *Entry, input int, fields Fields) (size int) {
	start := len(b.texts)
	for f, text := range e.texts() {
		if fields&(1<<f) != 0 {
			b.texts = append(binary.AppendUvarint(b.texts, uint64(len(*text))), *text...)
		}
	}
	status := 0
	if fields&Status != 0 {
		status = e.Status
	}
	b.list = append(b.list, record{
		sec: e.Time.Unix(), nsec: int32(e.Time.Nanosecond()), line: e.Line, input: int32(input),
		start: uint32(start), size: uint32(len(b.texts) - start), status: int16(status), late: e.Late,
	})
	return recordSize + len(b.texts) - start
}

// copy adds a record of from.
func (b *records) copy(r record, from *records) {
	texts := from.texts[r.start : r.start+r.size]
	r.start = uint32(len(b.texts))
	b.list, b.texts = append(b.list, r), append(b.texts, texts...)
}

// read sets the requested fields of e to those of record i. The texts of e share the memory of b.
func (b *records) read(i int, e *Entry, fields Fields) {
	r := &b.list[i]
	e.Time, e.Line, e.Late, e.Status = time.Unix(r.sec, int64(r.nsec)).UTC(), r.line, r.late, int(r.status)
	texts := b.texts[r.start : r.start+r.size]
	for f, text := range e.texts() {
		if fields&(1<<f) != 0 {
			n, width := binary.Uvarint(texts)
			end := width + int(n)
			*text, texts = texts[width:end:end], texts[end:]
		}
	}
}
