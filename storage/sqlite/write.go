package sqlite

import (
	sqldriver "database/sql/driver"
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// write applies swaps whose Old is the stored version.
func (s *Store) write(c *connection, swaps []storage.Swap, now int64) error {
	for i := range swaps {
		w := &swaps[i]
		if w.Old == 0 && w.New.Version == 0 {
			continue
		}
		text, args := s.statement(w, now)
		n, err := c.exec(text, args...)
		if text == s.sql.replace && n == 0 && err == nil { // the record expires before its purge_at
			n, err = c.exec(s.sql.replaceSooner, args...)
		}
		if err == nil && n != 1 {
			err = fmt.Errorf("the record of key %.40q was not written; check whether table %s has a trigger that prevents it", w.Key, s.table)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// statement returns the statement that writes one row if Old is the stored version.
func (s *Store) statement(w *storage.Swap, now int64) (text string, args []sqldriver.Value) {
	key, old, version := []byte(w.Key), int64(w.Old), int64(w.New.Version)
	state := w.New.State
	if state == nil { // nil would be stored as NULL
		state = []byte{}
	}
	if version == 0 {
		return s.sql.remove, []sqldriver.Value{key, old, now}
	}
	var expiry any // never
	if ttl := int64(w.Lifetime(time.Unix(0, now))); ttl > 0 && ttl <= math.MaxInt64-now {
		expiry = now + ttl
	}
	if old == 0 {
		return s.sql.create, []sqldriver.Value{key, version, state, expiry, now}
	}
	return s.sql.replace, []sqldriver.Value{version, state, expiry, key, old, now}
}
