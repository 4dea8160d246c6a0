package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/internal/retrywait"
	"github.com/sluice-go/sluice/storage"
)

// disableBusyTimeout makes SQLite return at once if the database is locked. The store waits itself, because SQLite ignores
// the context while it waits, and sleeps for at least a millisecond. The user's busy_timeout may change at any time, so it is
// read every time.
func (c *connection) disableBusyTimeout() error {
	var ms int64
	if _, err := c.query("PRAGMA busy_timeout", nil, &ms); ms <= 0 { // also after an error
		return err
	}
	c.busyTimeout = time.Duration(ms) * time.Millisecond
	_, err := c.exec("PRAGMA busy_timeout = 0")
	return err
}

func (c *connection) restoreBusyTimeout() error {
	if c.busyTimeout == 0 {
		return nil
	}
	_, err := c.exec(fmt.Sprint("PRAGMA busy_timeout = ", c.busyTimeout.Milliseconds()))
	return err
}

const (
	// spinTime is the time for which a caller polls the lock without sleeping. A decision holds
	// the lock for a tenth of it. In an idle Go program, the shortest sleep takes a millisecond.
	spinTime     = 200 * time.Microsecond
	firstBackoff = 500 * time.Microsecond
	maxBackoff   = 2 * time.Millisecond // much longer than a decision holds the lock
	// minWait is the least time for which the calls wait that nobody retries: to open a connection, Migrate
	// and Purge. It is the driver's default busy_timeout.
	minWait = 5 * time.Second
)

// retryBusy calls do until the database is not locked, or until ctx or timeout ends.
func retryBusy(ctx context.Context, timeout time.Duration, do func() error) error {
	start, backoff := time.Now(), firstBackoff
	var busy error
	for {
		err := do()
		ended := ctx.Err()
		switch {
		case isBusy(err):
		case busy != nil && ended != nil && errors.Is(err, ended): // do waited for something else
			return fmt.Errorf("%w: %w", busy, err)
		default:
			return err
		}
		busy = err
		waited := time.Since(start)
		switch {
		case waited >= timeout:
			return err
		case waited < spinTime:
			runtime.Gosched()
		default:
			retrywait.Pause(ctx, rand.N(backoff))
			backoff = min(2*backoff, maxBackoff)
		}
		if ended := ctx.Err(); ended != nil {
			if errors.Is(err, ended) { // do has waited too
				return err
			}
			return fmt.Errorf("%w: %w", err, ended)
		}
	}
}

func (c *connection) execRetryBusy(ctx context.Context, text string) error {
	return retryBusy(ctx, c.busyTimeout, func() error {
		_, err := c.exec(text)
		return err
	})
}

// wrap adds the error of package storage that shows whether a retry can help, or a remedy.
func wrap(err error) error {
	var e sqlite3.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e):
		return fmt.Errorf("sqlite: %w", err)
	case isBusy(err):
		return fmt.Errorf("sqlite: %w: %w", storage.ErrContended, err)
	case hasCode(err, sqlite3.ErrFull, sqlite3.ErrIoErr, sqlite3.ErrCantOpen, sqlite3.ErrReadonly):
		return fmt.Errorf("sqlite: %w: %w", storage.ErrUnavailable, err)
	case strings.HasPrefix(e.Error(), "no such table: ") || strings.HasPrefix(err.Error(), "no such index: "): // Migrate says more about an index
		return fmt.Errorf("sqlite: %w; call Store.Migrate first", err)
	case strings.HasPrefix(e.Error(), "no such column: ") || strings.Contains(e.Error(), " has no column named "):
		return fmt.Errorf("sqlite: %w; set another table in Options.Table or use another database, or drop this table if it holds only limits; then call Store.Migrate", err)
	}
	return fmt.Errorf("sqlite: %w", err)
}

// isBusy reports whether the database was locked by another connection of any process. ErrProtocol
// means that others took the lock first too often.
func isBusy(err error) bool {
	return hasCode(err, sqlite3.ErrBusy, sqlite3.ErrLocked, sqlite3.ErrProtocol)
}

// hasCode reports whether err is an error of SQLite with one of the codes.
func hasCode(err error, codes ...sqlite3.ErrNo) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && slices.Contains(codes, e.Code)
}
