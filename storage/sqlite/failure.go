package sqlite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/storage"
)

// failure says whether trying again can help. Nothing of a failed statement is
// applied; only of a failed COMMIT that cannot be said.
func failure(err error) error {
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
		return fmt.Errorf("sqlite: %w; name another table in Options.Table or another database, or drop this one if it holds nothing but limits, and call Store.Migrate", err)
	}
	return fmt.Errorf("sqlite: %w", err)
}

// isBusy reports whether another connection, of any process, had the lock, or took it first
// too often (ErrProtocol).
func isBusy(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked || e.Code == sqlite3.ErrProtocol)
}
