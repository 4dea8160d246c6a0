package sqlite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/storage"
)

// wrap adds the error of package storage that shows whether a retry can help, or a remedy.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	var e sqlite3.Error
	switch {
	case !errors.As(err, &e):
		return fmt.Errorf("sqlite: %w", err)
	case isBusy(err):
		return fmt.Errorf("sqlite: %w: %w", storage.ErrContended, err)
	case e.Code == sqlite3.ErrFull || e.Code == sqlite3.ErrIoErr || e.Code == sqlite3.ErrCantOpen || e.Code == sqlite3.ErrReadonly:
		return fmt.Errorf("sqlite: %w: %w", storage.ErrUnavailable, err)
	case e.Code == sqlite3.ErrError && (strings.HasPrefix(e.Error(), "no such table: ") || strings.HasPrefix(e.Error(), "no such index: ")):
		return fmt.Errorf("sqlite: %w; call Store.Migrate first", err)
	case e.Code == sqlite3.ErrError && (strings.HasPrefix(e.Error(), "no such column: ") || strings.Contains(e.Error(), " has no column named ")):
		return fmt.Errorf("sqlite: %w; set another table in Options.Table or use another database, or drop this table if it holds only limits; then call Store.Migrate", err)
	}
	return fmt.Errorf("sqlite: %w", err)
}

// isBusy reports whether the database was locked by another connection of any process. ErrProtocol
// means that others took the lock first too often.
func isBusy(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked || e.Code == sqlite3.ErrProtocol)
}
