package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/mattn/go-sqlite3"
)

// A connection does not wait for locks by itself, because SQLite does not hear of a
// context while it waits. None of these statements touches the file.
const (
	askPatience = "PRAGMA busy_timeout"
	setPatience = "PRAGMA busy_timeout = "
	noPatience  = setPatience + "0"
)

// stopWaiting has SQLite fail at once where it would wait. It asks every time how long
// that was: the connections of a pool may differ, and the user may change one at any
// time.
func (c *connection) stopWaiting() error {
	row := make([]driver.Value, 1)
	if _, err := c.query(row, askPatience); err != nil {
		return err
	}
	ms, _ := row[0].(int64)
	if ms <= 0 {
		return nil
	}
	c.patience = time.Duration(ms) * time.Millisecond
	_, err := c.exec(noPatience)
	return err
}

// waitAgain undoes that.
func (c *connection) waitAgain() error {
	if c.patience == 0 {
		return nil
	}
	_, err := c.exec(setPatience + strconv.FormatInt(c.patience.Milliseconds(), 10))
	return err
}

const (
	firstPause   = 500 * time.Microsecond
	longestPause = 2 * time.Millisecond // much longer than a decision keeps the lock
	openPatience = 5 * time.Second      // the driver's default
)

// patiently does what may find the database locked, again and again until it does not,
// or the context ends, or the patience of the user.
func (c *connection) patiently(ctx context.Context, do func() error) error {
	return patiently(ctx, c.patience, do)
}

func patiently(ctx context.Context, patience time.Duration, do func() error) error {
	start, pause := time.Now(), firstPause
	for {
		err := do()
		var e sqlite3.Error
		if !errors.As(err, &e) || !isBusy(e) || time.Since(start) >= patience {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, ctx.Err())
		case <-time.After(rand.N(pause)):
			pause = min(2*pause, longestPause)
		}
	}
}

// insist executes a statement patiently.
func (c *connection) insist(ctx context.Context, text string) error {
	return c.patiently(ctx, func() error {
		_, err := c.exec(text)
		return err
	})
}
