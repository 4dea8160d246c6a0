package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"
)

// The store waits for locks by itself: SQLite does not look at a context while it waits, and
// sleeps for at least a millisecond. So a connection that is in use by the store has
// busy_timeout 0. None of these statements touches the file.
const (
	getBusyTimeout = "PRAGMA busy_timeout"
	setBusyTimeout = "PRAGMA busy_timeout = "
	noBusyTimeout  = setBusyTimeout + "0"
)

// disableBusyTimeout makes SQLite return at once if the database is locked. It reads the
// user's busy_timeout every time, because the connections of a pool may differ, and the user may
// change one at any time.
func (c *connection) disableBusyTimeout() error {
	row := make([]sqldriver.Value, 1)
	if _, err := c.query(row, getBusyTimeout); err != nil {
		return err
	}
	ms, _ := row[0].(int64)
	if ms <= 0 {
		return nil
	}
	c.busyTimeout = time.Duration(ms) * time.Millisecond
	_, err := c.exec(noBusyTimeout)
	return err
}

// restoreBusyTimeout sets the busy_timeout that the user has set.
func (c *connection) restoreBusyTimeout() error {
	if c.busyTimeout == 0 {
		return nil
	}
	_, err := c.exec(setBusyTimeout + strconv.FormatInt(c.busyTimeout.Milliseconds(), 10))
	return err
}

const (
	// spinFor is how long a caller polls the lock without sleeping. A decision holds the lock
	// for a tenth of that, and the shortest sleep of a Go program that does nothing else takes
	// a millisecond.
	spinFor      = 200 * time.Microsecond
	firstPause   = 500 * time.Microsecond
	longestPause = 2 * time.Millisecond // much longer than a decision holds the lock
	openTimeout  = 5 * time.Second      // the driver's default busy_timeout
)

// retryBusy calls do until it does not find the database locked, or ctx or the user's
// busy_timeout ends.
func (c *connection) retryBusy(ctx context.Context, do func() error) error {
	return retryBusy(ctx, c.busyTimeout, do)
}

func retryBusy(ctx context.Context, timeout time.Duration, do func() error) error {
	start, pause := time.Now(), firstPause
	for {
		err := do()
		if err == nil || !isBusy(err) {
			return err
		}
		waited := time.Since(start)
		switch {
		case waited >= timeout:
			return err
		case waited < spinFor:
			runtime.Gosched()
		default:
			sleep(ctx, rand.N(pause))
			pause = min(2*pause, longestPause)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", err, ctx.Err())
		}
	}
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// execRetryBusy executes a statement by retryBusy.
func (c *connection) execRetryBusy(ctx context.Context, text string) error {
	return c.retryBusy(ctx, func() error {
		_, err := c.exec(text)
		return err
	})
}
