package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"math"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/storage"
)

// write tries the open groups of a batch.
func (s *Store) write(ctx context.Context, b *batch) error {
	begun := false
	err := s.connect(ctx, func(c *connection) error {
		begun = true
		if w, o := b.only(); w != nil {
			return s.writeOne(ctx, c, w, o)
		}
		return s.transact(ctx, c, b)
	})
	if err != nil && !begun {
		return storage.NotApplied(err)
	}
	return err
}

// transact tries them in one transaction.
func (s *Store) transact(ctx context.Context, c *connection, b *batch) error {
	return c.transaction(ctx, func() error { return s.swapAll(c, b) })
}

// writeOne tries one swap, and reads what is there if it is refused.
func (s *Store) writeOne(ctx context.Context, c *connection, w *storage.Swap, o *storage.Outcome) error {
	err := c.patiently(ctx, func() (err error) {
		o.Swapped, err = s.swap(c, w)
		return err
	})
	var e sqlite3.Error
	switch {
	case err != nil && !errors.As(err, &e), e.Code == sqlite3.ErrIoErr: // after the commit, or of it
		return failure(err)
	case err != nil:
		return storage.NotApplied(failure(err))
	case o.Swapped:
		return nil
	}
	if o.Current, err = s.read(ctx, c, []string{w.Key}); err != nil {
		return storage.NotApplied(err)
	}
	return nil
}

func (s *Store) swapAll(c *connection, b *batch) error {
	for _, i := range b.open {
		if err := s.swapGroup(c, b.groups[i], &b.outcomes[i]); err != nil {
			return err
		}
	}
	return nil
}

// swapGroup applies a group, or undoes what it did of it and reads what is
// there.
func (s *Store) swapGroup(c *connection, group []storage.Swap, o *storage.Outcome) error {
	if len(group) > 1 {
		if _, err := c.exec("SAVEPOINT sluice"); err != nil {
			return err
		}
		defer c.exec("RELEASE sluice") // if it fails, the transaction's end does it
	}
	for i := range group {
		applied, err := s.swap(c, &group[i])
		if err != nil {
			return err
		}
		if !applied {
			return s.conflict(c, group, o)
		}
	}
	o.Swapped = true
	return nil
}

func (s *Store) conflict(c *connection, group []storage.Swap, o *storage.Outcome) (err error) {
	if len(group) > 1 {
		if _, err := c.exec("ROLLBACK TO sluice"); err != nil {
			return err
		}
	}
	keys := make([]string, len(group))
	for i := range group {
		keys[i] = group[i].Key
	}
	o.Current, err = s.load(c, keys)
	return err
}

// swap applies one swap if the old version is what is stored.
func (s *Store) swap(c *connection, w *storage.Swap) (applied bool, err error) {
	if !writes(w) {
		found, err := s.load(c, []string{w.Key})
		return err == nil && found[0].Version == 0, err
	}
	text, args := s.statement(w)
	n, err := c.exec(text, args...)
	if text == s.sql.replace && n == 0 && err == nil { // another version, or an expiry before purge_at
		n, err = c.exec(s.sql.replaceSooner, args...)
	}
	return n == 1, err
}

// writes is false for a swap that only requires that there is no record.
func writes(w *storage.Swap) bool { return w.Old != 0 || w.New.Version != 0 }

// statement is what writes one row if the old version is what is stored, and else none.
func (s *Store) statement(w *storage.Swap) (text string, args []driver.Value) {
	now := s.now()
	key, old, version := []byte(w.Key), int64(w.Old), int64(w.New.Version)
	state := w.New.State
	if state == nil { // which would be NULL
		state = []byte{}
	}
	switch {
	case w.Old == 0:
		return s.sql.create, []driver.Value{key, version, state, expiry(now, w.Lifetime(time.Unix(0, now))), now}
	case w.New.Version == 0:
		return s.sql.remove, []driver.Value{key, old, now}
	}
	return s.sql.replace, []driver.Value{version, state, expiry(now, w.Lifetime(time.Unix(0, now))), key, old, now}
}

// expiry is when a record expires; nil: never.
func expiry(now int64, ttl time.Duration) any {
	if ttl == 0 || int64(ttl) > math.MaxInt64-now {
		return nil
	}
	return now + int64(ttl)
}
