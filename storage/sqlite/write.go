package sqlite

import (
	sqldriver "database/sql/driver"
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// swapAll applies all swaps, or returns the stored records if there is a conflict.
func (s *Store) swapAll(c *connection, swaps []storage.Swap, now int64) (current []storage.Record, err error) {
	keys := make([]string, len(swaps))
	for i := range swaps {
		keys[i] = swaps[i].Key
	}
	stored, err := s.load(c, keys, now)
	if err != nil {
		return nil, err
	}
	for i := range swaps {
		if stored[i].Version != swaps[i].Old {
			return stored, nil
		}
	}
	for i := range swaps {
		if err := s.write(c, &swaps[i], now); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// write applies a swap whose Old is the stored version.
func (s *Store) write(c *connection, w *storage.Swap, now int64) error {
	if w.Old == 0 && w.New.Version == 0 {
		return nil
	}
	text, args := s.statement(w, now)
	n, err := c.exec(text, args...)
	if text == s.sql.replace && n == 0 && err == nil { // the record expires before its purge_at
		n, err = c.exec(s.sql.replaceSooner, args...)
	}
	if err == nil && n != 1 {
		err = fmt.Errorf("the record of key %.40q was not written; check whether table %s has a trigger that prevents it", w.Key, s.table)
	}
	return err
}

// statement returns the statement that writes one row if Old is the stored version.
func (s *Store) statement(w *storage.Swap, now int64) (text string, args []sqldriver.Value) {
	key, old, version := []byte(w.Key), int64(w.Old), int64(w.New.Version)
	state := w.New.State
	if state == nil { // nil would be stored as NULL
		state = []byte{}
	}
	switch {
	case w.Old == 0:
		return s.sql.create, []sqldriver.Value{key, version, state, expiry(now, w.Lifetime(time.Unix(0, now))), now}
	case w.New.Version == 0:
		return s.sql.remove, []sqldriver.Value{key, old, now}
	}
	return s.sql.replace, []sqldriver.Value{version, state, expiry(now, w.Lifetime(time.Unix(0, now))), key, old, now}
}

// expiry returns the value of expires_at. nil means never.
func expiry(now int64, ttl time.Duration) any {
	if ttl == 0 || int64(ttl) > math.MaxInt64-now {
		return nil
	}
	return now + int64(ttl)
}
