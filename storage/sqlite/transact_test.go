package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/sqlite"
)

type deciderFunc func(found [][]byte, next []driver.Change) error

func (d deciderFunc) Decide(found [][]byte, next []driver.Change) error { return d(found, next) }

// adding counts in every key.
func adding(keys ...string) *driver.Update {
	return &driver.Update{Keys: keys, Decider: deciderFunc(func(found [][]byte, next []driver.Change) error {
		return add(time.Time{}, found, next)
	})}
}

// many is so many keys that their states take more than a few pages.
const many = 64

// putting stores a state under each of n keys, in as many updates.
func putting(n int, state string) (updates []*driver.Update) {
	for i := range n {
		updates = append(updates, &driver.Update{Keys: []string{fmt.Sprint(i)}, Decider: deciderFunc(func(_ [][]byte, next []driver.Change) error {
			next[0] = driver.Change{Verb: driver.Put, State: []byte(state), TTL: time.Hour}
			return nil
		})})
	}
	return updates
}

// counted is what adding has stored under each key.
func counted(t *testing.T, s storage.Store, keys ...string) (counts []uint64) {
	t.Helper()
	records, err := s.Load(t.Context(), keys...)
	require.NoError(t, err)
	for _, r := range records {
		n := uint64(0)
		if r.Version != 0 {
			n = binary.BigEndian.Uint64(r.State)
		}
		counts = append(counts, n)
	}
	return counts
}

// countInTransactions adds to two keys, twice in each transaction, and prints a line after each.
func countInTransactions(dsn string, transactions int) error {
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := sqlite.New(db, sqlite.Options{})
	for i := 0; err == nil && i < transactions; i++ {
		if err = s.Transact(context.Background(), nil, adding("a", "b"), adding("b", "a")); err == nil {
			fmt.Println(i)
		}
	}
	return err
}

func TestTwoProcessesTransact(t *testing.T) {
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal} {
		t.Run(name, func(t *testing.T) {
			s, _, dsn := shared(t, options)
			var group sync.WaitGroup
			outputs := make(chan string, 2)
			for range cap(outputs) {
				cmd := another(t, "transact", dsn)
				group.Go(func() {
					text, err := cmd.CombinedOutput()
					outputs <- fmt.Sprint(string(text), err)
				})
			}
			group.Wait()
			for range cap(outputs) {
				require.Contains(t, <-outputs, fmt.Sprintf("%d\n<nil>", spending-1))
			}
			require.Equal(t, []uint64{4 * spending, 4 * spending}, counted(t, s, "a", "b"))
		})
	}
}

// A process is killed in the middle of its transactions. Those that it saw committed are there, and
// none is there in part.
func TestAProcessDiesInATransaction(t *testing.T) {
	s, _, dsn := shared(t, wal)
	for range 3 {
		before := counted(t, s, "a")[0]
		cmd := another(t, "transact for ever", dsn)
		output, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		committed, lines := uint64(0), bufio.NewScanner(output)
		for lines.Scan() {
			if committed++; committed == 50 {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		_ = cmd.Wait()
		require.GreaterOrEqual(t, committed, uint64(50))
		after := counted(t, s, "a", "b")
		require.Equal(t, after[0], after[1])
		require.Zero(t, after[0]%2, "a transaction was stored in part")
		require.GreaterOrEqual(t, after[0], before+2*committed)
		require.NoError(t, s.Transact(t.Context(), nil, adding("a", "b"), adding("a", "b")))
	}
}

// The disk is full in the middle of a transaction.
func TestATransactionOnAFullDisk(t *testing.T) {
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal} {
		t.Run(name, func(t *testing.T) {
			s, db, _ := shared(t, options)
			db.SetMaxOpenConns(1)
			var pages int
			require.NoError(t, db.QueryRow("PRAGMA page_count").Scan(&pages))
			_, err := db.Exec(fmt.Sprint("PRAGMA max_page_count = ", pages+10))
			require.NoError(t, err)
			updates := putting(many, strings.Repeat("x", 1000))
			tooLong := &driver.Update{Keys: []string{strings.Repeat("x", storage.MaxKey+1)}}
			err = s.Transact(t.Context(), nil, append(updates, tooLong)...)
			require.ErrorIs(t, err, storage.ErrUnavailable)
			require.ErrorIs(t, err, storage.ErrNotApplied)
			for _, u := range updates {
				require.Equal(t, err, u.Err)
			}
			require.ErrorIs(t, tooLong.Err, storage.ErrKey, "it failed alone before")
			require.Zero(t, count(t, db))

			_, err = db.Exec(fmt.Sprint("PRAGMA max_page_count = ", pages+1000))
			require.NoError(t, err)
			require.NoError(t, s.Transact(t.Context(), nil, updates...))
			require.Equal(t, many, count(t, db))
		})
	}
}

// Another connection reads what was stored before, and does not wait.
func TestAReaderDuringATransaction(t *testing.T) {
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal} {
		t.Run(name, func(t *testing.T) {
			s, _, dsn := shared(t, options)
			other, err := sql.Open("sqlite3", strings.Replace(dsn, "20000", "0", 1))
			require.NoError(t, err)
			t.Cleanup(func() { other.Close() })
			reader, err := sqlite.New(other, sqlite.Options{})
			require.NoError(t, err)
			require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
			reads := &driver.Update{Decider: deciderFunc(func([][]byte, []driver.Change) error {
				require.Equal(t, []uint64{1, 0}, counted(t, reader, "a", "b"))
				_, _, err := reader.CompareAndSwap(t.Context(), creating("b"))
				require.ErrorIs(t, err, storage.ErrContended, "others cannot write")
				return nil
			})}
			require.NoError(t, s.Transact(t.Context(), nil, adding("a"), reads, adding("a", "b")))
			require.NoError(t, reads.Err)
			require.Equal(t, []uint64{3, 1}, counted(t, reader, "a", "b"))
		})
	}
}

// However many updates use a key, it is read and written once.
func TestATransactionReadsAndWritesAKeyOnce(t *testing.T) {
	s, _, a := openAround(t)
	require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
	a.asked = nil
	require.NoError(t, s.Transact(t.Context(), nil, adding("a"), adding("a"), adding("a")))
	require.Equal(t, []uint64{4}, counted(t, s, "a"))
	var kinds []string
	for _, text := range a.asked[:6] {
		kinds = append(kinds, strings.Fields(text)[0])
	}
	require.Equal(t, []string{"PRAGMA", "PRAGMA", "BEGIN", "SELECT", "UPDATE", "COMMIT"}, kinds)
}

// A denial or a peek leaves the file alone, and the log.
func TestATransactionOfNoChangesWritesNothing(t *testing.T) {
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal} {
		t.Run(name, func(t *testing.T) {
			s, _, dsn := shared(t, options)
			require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
			file := strings.TrimPrefix(dsn[:strings.Index(dsn, "?")], "file:")
			bytes := func() (all []string) {
				for _, name := range []string{file, file + "-wal", file + "-journal"} {
					content, err := os.ReadFile(name)
					all = append(all, string(content), fmt.Sprint(errors.Is(err, os.ErrNotExist)))
				}
				return all
			}
			before := bytes()
			denied := errors.New("denied")
			keep := &driver.Update{Keys: []string{"a", "b"}, Decider: deciderFunc(func([][]byte, []driver.Change) error { return nil })}
			fails := &driver.Update{Keys: []string{"a"}, Decider: deciderFunc(func([][]byte, []driver.Change) error { return denied })}
			remove := &driver.Update{Keys: []string{"b"}, Decider: deciderFunc(func(_ [][]byte, next []driver.Change) error {
				next[0].Verb = driver.Delete
				return nil
			})}
			require.NoError(t, s.Transact(t.Context(), nil, keep, fails, remove))
			require.Equal(t, denied, fails.Err)
			require.True(t, fmt.Sprint(before) == fmt.Sprint(bytes()), "a file has changed")
		})
	}
}

// The user would wait for 20 seconds.
func TestATransactionWaitsForTheLock(t *testing.T) {
	s, _, dsn := shared(t, wal)
	release := held(t, dsn)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	u := adding("a")
	var err error
	within(t, soon, func() { err = s.Transact(ctx, nil, u) })
	require.ErrorIs(t, err, storage.ErrContended)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, err, u.Err)
	defer time.AfterFunc(soon, release).Stop()
	require.NoError(t, s.Transact(t.Context(), nil, u))
	require.NoError(t, u.Err)
}

// What needs no database does not ask for it.
func TestATransactionOfNothing(t *testing.T) {
	file := new(broken)
	s, err := sqlite.New(sql.OpenDB(file), sqlite.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Transact(t.Context(), nil))
	twice := adding("a", "a")
	require.NoError(t, s.Transact(t.Context(), nil, twice))
	require.ErrorIs(t, twice.Err, storage.ErrDuplicateKey)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	u := adding("a")
	for _, err := range []error{s.Transact(ended, nil, u), u.Err} {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, storage.ErrNotApplied)
	}
	require.Zero(t, file.tries)
	for _, err := range []error{s.Transact(t.Context(), nil, u), u.Err} {
		require.ErrorContains(t, err, "broken")
		require.ErrorIs(t, err, storage.ErrNotApplied)
	}
}

// Only of a failed COMMIT it is not known whether the transaction was stored.
func TestWhatIsProvenOfATransaction(t *testing.T) {
	for prefix, proven := range map[string]bool{"PRAGMA busy_timeout": true, "BEGIN": true, "SELECT": true, "INSERT": true, "COMMIT": false} {
		s, _, a := openAround(t)
		a.fail = failing(prefix, sqlite3.Error{Code: sqlite3.ErrIoErr})
		u := adding("a")
		err := s.Transact(t.Context(), nil, u)
		require.ErrorIs(t, err, storage.ErrUnavailable, prefix)
		require.Equal(t, proven, errors.Is(err, storage.ErrNotApplied), prefix)
		require.Equal(t, err, u.Err)
		a.fail = nil
		require.NoError(t, s.Transact(t.Context(), nil, u), prefix)
		require.NoError(t, u.Err)
		require.Equal(t, []uint64{1}, counted(t, s, "a"))
	}
}

// A trigger of the user may keep a statement from writing.
func TestATransactionThatIsIgnored(t *testing.T) {
	s, db, _ := shared(t, wal)
	_, err := db.Exec("CREATE TRIGGER ignore BEFORE INSERT ON " + sqlite.DefaultTable +
		" WHEN NEW.key = CAST('b' AS BLOB) BEGIN SELECT RAISE(IGNORE); END")
	require.NoError(t, err)
	err = s.Transact(t.Context(), nil, adding("a"), adding("b"))
	require.ErrorIs(t, err, storage.ErrNotApplied)
	require.ErrorContains(t, err, `the record of key "b" was not written`)
	require.Equal(t, []uint64{0, 0}, counted(t, s, "a", "b"))
}

// A database in memory is gone with its connection, so a panic must leave that.
func TestAPanicLeavesTheConnection(t *testing.T) {
	panicking := func() time.Time { panic("the clock") }
	clock := time.Now
	db := database(t, "mode=memory")
	db.SetMaxOpenConns(1)
	s := open(t, db, sqlite.Options{Clock: func() time.Time { return clock() }})
	require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
	require.Panics(t, func() { _ = s.Transact(t.Context(), panicking, adding("a")) })
	clock = panicking
	require.Panics(t, func() { _ = s.Transact(t.Context(), nil, adding("a")) })
	clock = time.Now
	faulty := &driver.Update{Decider: deciderFunc(func([][]byte, []driver.Change) error { panic("the decider") })}
	require.PanicsWithValue(t, "the decider", func() { _ = s.Transact(t.Context(), nil, adding("a"), faulty) })
	require.Zero(t, db.Stats().InUse)
	require.Equal(t, []uint64{1}, counted(t, s, "a"))
	require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
	require.Equal(t, []uint64{2}, counted(t, s, "a"))
}

// Without WAL a commit waits for those who read, as long as the user would.
func TestATransactionThatCannotCommit(t *testing.T) {
	s, db, dsn := shared(t, strings.Replace(journal, "20000", "30", 1))
	db.SetMaxOpenConns(1)
	require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
	other, err := sql.Open("sqlite3", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { other.Close() })
	rows, err := other.Query("SELECT key FROM " + sqlite.DefaultTable)
	require.NoError(t, err)
	defer rows.Close()
	require.True(t, rows.Next())
	require.ErrorIs(t, s.Transact(t.Context(), nil, adding("a"), adding("b")), storage.ErrContended)
	require.NoError(t, rows.Close())
	require.Equal(t, 1, db.Stats().OpenConnections)
	require.NoError(t, s.Transact(t.Context(), nil, adding("a"), adding("b")))
	require.Equal(t, []uint64{2, 1}, counted(t, s, "a", "b"))
}
