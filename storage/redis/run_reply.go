package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// readReply reads what run.lua returns: the value of each key, empty if it is absent, the time and what was
// applied, and the keys that failed.
func (s *Store) readReply(b *driver.Batch, reply []string) error {
	n := len(b.Keys)
	if len(reply) <= n || len(reply[n]) < 8 || !readApplied(b.Requests, reply[n][8:]) {
		return errAnswer
	}
	b.At = b.Now
	if b.Now.IsZero() {
		b.At = time.Unix(0, int64(binary.BigEndian.Uint64([]byte(reply[n][:8]))))
	}
	b.KeyErr = nil
	for _, failed := range reply[n+1:] {
		if err := s.readKeyErr(b, failed); err != nil {
			return err
		}
	}
	return readFound(b, reply[:n])
}

// readFound reads the values of the keys. The states of all records are in one piece of memory.
func readFound(b *driver.Batch, values []string) error {
	size := 0
	for _, value := range values {
		size += len(value)
	}
	all := make([]byte, 0, size)
	b.Found = make([]storage.Record, len(values))
	for i, value := range values {
		if value == "" || b.KeyErr != nil && b.KeyErr[i] != nil {
			continue
		}
		start := len(all)
		all = append(all, value...)
		record, err := decode(all[start:len(all):len(all)])
		if err != nil {
			return err
		}
		b.Found[i] = record
	}
	return nil
}

// readApplied reads a byte for each request, or five bytes if it is a large number.
func readApplied(requests []driver.Request, from string) bool {
	const large, negative = 252, 256
	for i := range requests {
		if len(from) == 0 {
			return false
		}
		applied, size := int(from[0]), 1
		switch {
		case applied == large && len(from) < 5:
			return false
		case applied == large:
			applied, size = int(binary.BigEndian.Uint32([]byte(from[1:5]))), 5
		case applied > large:
			applied -= negative
		}
		requests[i].Applied, from = applied, from[size:]
	}
	return len(from) == 0
}

// readKeyErr reads the number of a key and why it failed. If its write failed, other keys of
// its requests may have been written.
func (s *Store) readKeyErr(b *driver.Batch, text string) error {
	if len(text) < 4 {
		return errAnswer
	}
	i := int(binary.BigEndian.Uint32([]byte(text))) - 1
	if i < 0 || i >= len(b.Keys) {
		return errAnswer
	}
	if b.KeyErr == nil {
		b.KeyErr = make([]error, len(b.Keys))
	}
	switch reason, unwritten := strings.CutPrefix(text[4:], "WRITE "); {
	case reason == "NORECORD":
		b.KeyErr[i] = storage.NotApplied(fmt.Errorf("%w: key %.40q", errNoRecord, s.key(b.Keys[i])))
	case unwritten:
		b.KeyErr[i] = fmt.Errorf("redis: %w: key %.40q: %s", storage.ErrTorn, s.key(b.Keys[i]), reason)
	default:
		b.KeyErr[i] = storage.NotApplied(s.failed(replyError(reason)))
	}
	return nil
}

var errNoRecord = errors.New("redis: what is stored is no record of ours")

// replyError is an error of the server that a script passes on as text.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}
