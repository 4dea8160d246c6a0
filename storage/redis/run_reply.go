package redis

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// readReply reads the reply of run.lua: the value of each key, which is empty if the key is absent;
// then the time in 8 bytes and the outcome of each request in 4; then an error for each key that failed.
func (s *Store) readReply(b *driver.Batch, reply []string) error {
	n := len(b.Keys)
	if len(reply) <= n || len(reply[n]) != 8+4*len(b.Requests) {
		return errReplyForm
	}
	head := []byte(reply[n])
	if b.At = b.Now; b.Now.IsZero() {
		b.At = time.Unix(0, int64(binary.BigEndian.Uint64(head)))
	}
	for i := range b.Requests {
		b.Requests[i].Applied = int(int32(binary.BigEndian.Uint32(head[8+4*i:])))
	}
	b.KeyErr = nil
	for _, failed := range reply[n+1:] {
		if err := s.readKeyErr(b, failed); err != nil {
			return err
		}
	}
	var err error
	b.Found, err = decodeAll(reply[:n], b.KeyErr)
	return err
}

// decodeAll decodes the values of keys. A value is empty if the key is absent. The states of all
// records share one allocation. decodeAll skips the keys that failed.
func decodeAll(values []string, failed []error) ([]storage.Record, error) {
	size := 0
	for _, value := range values {
		size += len(value)
	}
	all, records := make([]byte, 0, size), make([]storage.Record, len(values))
	for i, value := range values {
		if value == "" || failed != nil && failed[i] != nil {
			continue
		}
		start := len(all)
		all = append(all, value...)
		record, err := decode(all[start:len(all):len(all)])
		if err != nil {
			return nil, err
		}
		records[i] = record
	}
	return records, nil
}

// readKeyErr reads the number of a key and its error. If the write of the key failed, other keys of
// its requests may have been written.
func (s *Store) readKeyErr(b *driver.Batch, text string) error {
	if len(text) < 4 {
		return errReplyForm
	}
	i := int(binary.BigEndian.Uint32([]byte(text))) - 1
	if i < 0 || i >= len(b.Keys) {
		return errReplyForm
	}
	if b.KeyErr == nil {
		b.KeyErr = make([]error, len(b.Keys))
	}
	switch reason, writeFailed := strings.CutPrefix(text[4:], "WRITE "); {
	case reason == "NORECORD":
		b.KeyErr[i] = storage.NotApplied(fmt.Errorf("%w: key %.40q", errNoRecord, s.key(b.Keys[i])))
	case writeFailed:
		b.KeyErr[i] = fmt.Errorf("redis: %w: key %.40q: %s", storage.ErrTorn, s.key(b.Keys[i]), reason)
	default:
		b.KeyErr[i] = storage.NotApplied(s.failure(replyError(reason)))
	}
	return nil
}

// replyError is an error of the server that a script returned as text.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}
