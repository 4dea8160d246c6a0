package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

// A wait for a lock ends before the deadline with an error of the server. So the outcome is known, and
// the connection stays open.
func TestWaitForALockEndsBeforeTheDeadline(t *testing.T) {
	ctx, p := context.Background(), newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	_, _, err := s.CompareAndSwap(ctx, creating("a")...)
	require.NoError(t, err)
	holder := begin(t, p)
	_, _, err = storeIn(t, holder, table).Load(ctx, "a")
	require.NoError(t, err)
	_, err = holder.Exec(ctx, "SELECT FROM "+table+" FOR UPDATE")
	require.NoError(t, err)

	own := newPool(t, shared.Postgres(t).DSN()+"&pool_max_conns=1&lock_timeout=1min")
	waiter, err := postgres.New(own, postgres.Options{Table: table})
	require.NoError(t, err)
	backend := func() (pid int) {
		require.NoError(t, own.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid))
		return pid
	}
	var before int
	wait := func() error {
		before = backend()
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, _, err := waiter.CompareAndSwap(limited, creating("a")...)
		require.Less(t, time.Since(began), time.Second+slack)
		return err
	}
	err = wait()
	for again := 0; again < 10 && !errors.Is(err, storage.ErrContended); again++ {
		err = wait() // on a busy machine the reply may be too late
	}
	require.ErrorIs(t, err, storage.ErrContended)
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.Equal(t, before, backend())
	var setting string
	require.NoError(t, own.QueryRow(ctx, "SHOW lock_timeout").Scan(&setting))
	require.Equal(t, "1min", setting)
}

// A statement such as VACUUM FULL locks the whole table. A decision that waits for this lock ends like
// one that waits for a row.
func TestRunOnALockedTable(t *testing.T) {
	p := newPool(t, shared.Postgres(t).DSN())
	s, table := newStore(t, p)
	_, err := begin(t, p).Exec(t.Context(), "LOCK TABLE "+table)
	require.NoError(t, err)
	for name, batch := range map[string]func() *driver.Batch{
		"a request":                 func() *driver.Batch { return requestEach(t, "a") },
		"requests of one use":       func() *driver.Batch { return requestEach(t, "a", "b") },
		"a request of several uses": func() *driver.Batch { return oneRequest(t, "a", "b") },
	} {
		var b *driver.Batch
		run := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			b = batch()
			s.Run(ctx, b)
			if b.KeyErr != nil {
				return b.KeyErr[0]
			}
			return b.Err
		}
		err := run()
		for again := 0; again < 10 && !errors.Is(err, storage.ErrContended); again++ {
			err = run() // on a busy machine the reply may be too late
		}
		require.ErrorIs(t, err, storage.ErrContended, name)
		require.ErrorIs(t, err, storage.ErrNotApplied, name)
	}
}

// The server does not answer. The call ends at its deadline, and the next call gets another connection.
func TestRunEndsAtItsDeadline(t *testing.T) {
	_, table := newStore(t, newPool(t, shared.Postgres(t).DSN()))
	through, proxy := newCountedPool(t, "")
	t.Cleanup(proxy.Disconnect)
	s, err := postgres.New(through, postgres.Options{Table: table})
	require.NoError(t, err)
	run := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		b := requestEach(t, "a")
		s.Run(ctx, b)
		return b.Err
	}
	require.NoError(t, run(time.Minute))
	proxy.Plan(faultproxy.Fault{At: 1, Kind: faultproxy.StallReply})
	began := time.Now()
	requireKinds(t, run(300*time.Millisecond), storage.ErrUnavailable)
	require.Less(t, time.Since(began), 300*time.Millisecond+slack)
	proxy.Release()
	require.NoError(t, run(time.Minute))
}
