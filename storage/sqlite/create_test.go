package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// SQLite does not wait if two connections switch a new file to WAL at the same time.
func TestConcurrentStoresCreateOneFile(t *testing.T) {
	const stores = 16
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal} {
		t.Run(name, func(t *testing.T) {
			for round := range 4 {
				dsn := "file:" + filepath.Join(t.TempDir(), fmt.Sprint(round, ".db")) + strings.Replace(options, "_synchronous=OFF", "_synchronous=NORMAL", 1)
				begin, errs := make(chan struct{}), make(chan error, stores)
				for range stores {
					db, err := sql.Open("sqlite3", dsn)
					require.NoError(t, err)
					defer db.Close()
					s, err := sqlite.New(db, sqlite.Options{})
					require.NoError(t, err)
					go func() {
						<-begin
						err := s.Migrate(t.Context())
						if err == nil {
							err = s.Transact(t.Context(), nil, adding("a"))
						}
						errs <- err
					}()
				}
				close(begin)
				for range stores {
					require.NoError(t, <-errs)
				}
			}
		})
	}
}

// noWait makes SQLite fail at once if the database is locked. Nobody retries a Migrate or a Purge.
const noWait = "&_busy_timeout=0"

func TestProcessesWithoutABusyTimeoutCreateOneFile(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips tests that start many processes")
	}
	const processes = 3
	for _, mode := range []string{"?_journal_mode=WAL", "?_journal_mode=DELETE"} {
		for round := range 4 {
			dsn := "file:" + filepath.Join(t.TempDir(), fmt.Sprint(round, ".db")) + mode + noWait
			begin, errs := make(chan struct{}), make(chan error, processes)
			for range processes {
				cmd := otherProcess(t, "migrate", dsn)
				stdin, err := cmd.StdinPipe()
				require.NoError(t, err)
				text := new(bytes.Buffer)
				cmd.Stdout = text
				require.NoError(t, cmd.Start())
				go func() {
					<-begin
					stdin.Close()
					err := cmd.Wait()
					if err != nil {
						err = fmt.Errorf("%w: %s", err, text)
					}
					errs <- err
				}()
			}
			close(begin)
			for range processes {
				require.NoError(t, <-errs)
			}
		}
	}
}

// migrate prepares the table when the standard input ends.
func migrate(dsn string) error {
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Migrate(context.Background()); err != nil {
		return err
	}
	_, err = s.Purge(context.Background(), 10)
	return err
}

func TestMigrateAndPurgeWaitForTheLockWithoutABusyTimeout(t *testing.T) {
	_, db, dsn := shared(t, "?_journal_mode=WAL"+noWait)
	s, err := sqlite.New(db, sqlite.Options{Table: "another"})
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	missing, err := sqlite.New(db, sqlite.Options{Table: "missing"})
	require.NoError(t, err)
	release := lockInOtherProcess(t, dsn)
	for name, call := range map[string]func(context.Context) error{
		"migrate": missing.Migrate,
		"purge": func(ctx context.Context) error {
			_, err := s.Purge(ctx, 10)
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		within(t, soon, func() { err = call(ctx) })
		require.ErrorIs(t, err, storage.ErrContended, name)
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
	}
	release()
	require.NoError(t, missing.Migrate(t.Context()))
}
