package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
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

// updating returns an update of keys that are their own texts. decide returns whether to store Next.
func updating(decide func(items []driver.Item) bool, keys ...string) *driver.Update {
	u := new(driver.Update)
	for _, key := range keys {
		u.Items = append(u.Items, driver.Item{Key: driver.RuleKey{Key: key}})
	}
	u.Decide = func(time.Time) bool { return decide(u.Items) }
	return u
}

// adding is an update that adds one to the count of every key.
func adding(keys ...string) *driver.Update {
	return updating(func(items []driver.Item) bool { return add(time.Time{}, items) == nil }, keys...)
}

// many is a number of keys whose states fill more than a few pages.
const many = 64

// putting returns n updates that store a state under n keys.
func putting(n int, state string) (updates []*driver.Update) {
	for i := range n {
		updates = append(updates, updating(func(items []driver.Item) bool {
			items[0].Next = driver.Change{Verb: driver.Put, State: []byte(state), TTL: time.Hour}
			return true
		}, fmt.Sprint(i)))
	}
	return updates
}

// counted returns the counts of keys.
func counted(t *testing.T, s storage.Store, keys ...string) (counts []uint64) {
	t.Helper()
	records, _, err := s.Load(t.Context(), keys...)
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

// countInTransactions adds two to two keys in each transaction, and prints a line after each.
func countInTransactions(dsn string, n int) error {
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := sqlite.New(db, sqlite.Options{})
	for i := 0; err == nil && i < n; i++ {
		if err = s.Transact(context.Background(), nil, adding("a", "b"), adding("b", "a")); err == nil {
			fmt.Println(i)
		}
	}
	return err
}

func TestTransactionsOfTwoProcessesAreCounted(t *testing.T) {
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal} {
		t.Run(name, func(t *testing.T) {
			s, _, dsn := shared(t, options)
			var group sync.WaitGroup
			outputs := make(chan string, 2)
			for range cap(outputs) {
				cmd := otherProcess(t, "transact", dsn)
				group.Go(func() {
					text, err := cmd.CombinedOutput()
					outputs <- fmt.Sprint(string(text), err)
				})
			}
			group.Wait()
			for range cap(outputs) {
				require.Contains(t, <-outputs, fmt.Sprintf("%d\n<nil>", transactions-1))
			}
			require.Equal(t, []uint64{4 * transactions, 4 * transactions}, counted(t, s, "a", "b"))
		})
	}
}

func TestProcessIsKilledDuringATransaction(t *testing.T) {
	s, _, dsn := shared(t, wal)
	for range 3 {
		before := counted(t, s, "a")[0]
		cmd := otherProcess(t, "transact for ever", dsn)
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

func TestDiskIsFullDuringATransaction(t *testing.T) {
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal} {
		t.Run(name, func(t *testing.T) {
			s, db, _ := shared(t, options)
			db.SetMaxOpenConns(1)
			var pages int
			require.NoError(t, db.QueryRow("PRAGMA page_count").Scan(&pages))
			_, err := db.Exec(fmt.Sprint("PRAGMA max_page_count = ", pages+10))
			require.NoError(t, err)
			updates := putting(many, strings.Repeat("x", 1000))
			err = s.Transact(t.Context(), nil, updates...)
			require.ErrorIs(t, err, storage.ErrUnavailable)
			require.ErrorIs(t, err, storage.ErrNotApplied)
			require.Zero(t, count(t, db))

			_, err = db.Exec(fmt.Sprint("PRAGMA max_page_count = ", pages+1000))
			require.NoError(t, err)
			require.NoError(t, s.Transact(t.Context(), nil, updates...))
			require.Equal(t, many, count(t, db))
		})
	}
}

func TestReaderDuringATransactionReadsTheEarlierState(t *testing.T) {
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal} {
		t.Run(name, func(t *testing.T) {
			s, _, dsn := shared(t, options)
			other, err := sql.Open("sqlite3", strings.Replace(dsn, "20000", "0", 1))
			require.NoError(t, err)
			t.Cleanup(func() { other.Close() })
			reader, err := sqlite.New(other, sqlite.Options{})
			require.NoError(t, err)
			require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
			read := false
			reads := updating(func([]driver.Item) bool {
				require.Equal(t, []uint64{1, 0}, counted(t, reader, "a", "b"))
				_, _, err := reader.CompareAndSwap(t.Context(), creating("b"))
				require.ErrorIs(t, err, storage.ErrContended, "others cannot write")
				read = true
				return true
			})
			require.NoError(t, s.Transact(t.Context(), nil, adding("a"), reads, adding("a", "b")))
			require.True(t, read)
			require.Equal(t, []uint64{3, 1}, counted(t, reader, "a", "b"))
		})
	}
}

func TestTransactionReadsAndWritesEachKeyOnce(t *testing.T) {
	s, _, a := openRecording(t)
	require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
	a.texts = nil
	require.NoError(t, s.Transact(t.Context(), nil, adding("a"), adding("a"), adding("a")))
	require.Equal(t, []uint64{4}, counted(t, s, "a"))
	var kinds []string
	for _, text := range a.texts[:8] {
		if !strings.Contains(text, "total_changes") { // reads no record
			kinds = append(kinds, strings.Fields(text)[0])
		}
	}
	require.Equal(t, []string{"PRAGMA", "PRAGMA", "BEGIN", "SELECT", "UPDATE", "COMMIT"}, kinds[:6])
}

func TestTransactionWithoutChangesWritesNothing(t *testing.T) {
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
			keep := updating(func([]driver.Item) bool { return true }, "a", "b")
			refused := updating(func(items []driver.Item) bool { items[0].Next.Verb = driver.Delete; return false }, "a")
			remove := updating(func(items []driver.Item) bool { items[0].Next.Verb = driver.Delete; return true }, "b")
			require.NoError(t, s.Transact(t.Context(), nil, keep, refused, remove))
			require.True(t, fmt.Sprint(before) == fmt.Sprint(bytes()), "a file has changed")
		})
	}
}

// A trigger may drop a write, or change the record after it. The record is then not as it was written, so the
// write fails, and a retry does not help.
func TestTriggerThatDropsOrChangesAWriteIsAnError(t *testing.T) {
	const restore = "UPDATE t SET version = OLD.version, state = OLD.state, expires_at = OLD.expires_at WHERE key = OLD.key"
	for _, c := range []struct {
		trigger string
		fails   string // the writes that fail
	}{
		{"BEFORE INSERT ON t BEGIN SELECT RAISE(IGNORE)", "create"},
		{"BEFORE UPDATE ON t BEGIN SELECT RAISE(IGNORE)", "replace"},
		{"BEFORE DELETE ON t BEGIN SELECT RAISE(IGNORE)", "delete"},
		{"AFTER INSERT ON t BEGIN DELETE FROM t WHERE key = NEW.key", "create"},
		{"AFTER INSERT ON t BEGIN UPDATE t SET expires_at = 1 WHERE key = NEW.key", "create"},
		{"AFTER UPDATE ON t BEGIN " + restore, "replace"},
		{"AFTER UPDATE ON t BEGIN UPDATE t SET version = OLD.version WHERE key = OLD.key", "replace"},
		{"AFTER UPDATE ON t BEGIN UPDATE t SET state = x'00' WHERE key = OLD.key", "replace"},
		{"AFTER DELETE ON t BEGIN INSERT INTO t VALUES (OLD.key, OLD.version, OLD.state, OLD.expires_at, OLD.purge_at)", "delete"},
		{"AFTER UPDATE ON t BEGIN INSERT INTO audit VALUES (OLD.key)", "none"},
	} {
		t.Run(c.trigger, func(t *testing.T) {
			db := database(t, wal)
			s := open(t, db, sqlite.Options{Table: "t"})
			swap := func(swaps ...storage.Swap) error {
				_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
				require.True(t, swapped == (err == nil), "a conflict")
				return err
			}
			old, other := creating("old"), creating("other")
			require.NoError(t, swap(old, other))
			_, err := db.Exec("CREATE TABLE audit (key BLOB); CREATE TRIGGER x " + c.trigger + "; END")
			require.NoError(t, err)
			before := rows(t, db, "SELECT * FROM t")
			replaced := creating("old")
			replaced.Old, replaced.TTL = old.New.Version, time.Hour
			for _, w := range []struct {
				name string
				swap storage.Swap
				verb driver.Verb
			}{{"create", creating("new"), driver.Put}, {"replace", replaced, driver.Put}, {"delete", storage.Swap{Key: "old", Old: old.New.Version}, driver.Delete}} {
				if w.name != c.fails {
					continue
				}
				u := updating(func(items []driver.Item) bool {
					items[0].Next = driver.Change{Verb: w.verb, State: []byte("state"), TTL: w.swap.TTL}
					return true
				}, w.swap.Key)
				beside := creating("beside " + w.name)
				for _, err := range []error{swap(w.swap), swap(beside, w.swap), s.Transact(t.Context(), nil, u)} {
					require.ErrorIs(t, err, storage.ErrNotApplied)
					require.NotErrorIs(t, err, storage.ErrContended)
					require.NotErrorIs(t, err, storage.ErrUnavailable)
					require.ErrorContains(t, err, "trigger")
					var of *storage.KeyError
					require.ErrorAs(t, err, &of)
					require.Contains(t, []string{w.swap.Key, beside.Key}, of.Key)
				}
				require.Equal(t, before, rows(t, db, "SELECT * FROM t"))
			}
			if c.fails == "none" { // the trigger writes another table
				require.NoError(t, swap(replaced))
			}
		})
	}
}

// A database in memory is lost if a panic or runtime.Goexit closes its connection.
func TestPanicAndGoexitDoNotCloseTheConnection(t *testing.T) {
	panicking := func() time.Time { panic("the clock") }
	clock := time.Now
	db := database(t, "mode=memory")
	db.SetMaxOpenConns(1)
	s := open(t, db, sqlite.Options{Clock: func() time.Time { return clock() }})
	require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
	require.Panics(t, func() { _ = s.Transact(t.Context(), panicking, adding("a")) })
	clock = panicking
	require.Panics(t, func() { _ = s.Transact(t.Context(), nil, adding("a")) })
	require.Panics(t, func() { _, _, _ = s.CompareAndSwap(t.Context(), creating("a")) })
	clock = time.Now
	faulty := updating(func([]driver.Item) bool { panic("the decider") })
	require.PanicsWithValue(t, "the decider", func() { _ = s.Transact(t.Context(), nil, adding("a"), faulty) })
	exiting := updating(func([]driver.Item) bool { runtime.Goexit(); return true })
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = s.Transact(t.Context(), nil, adding("a"), exiting)
	}()
	<-exited
	require.Zero(t, db.Stats().InUse)
	require.Equal(t, []uint64{1}, counted(t, s, "a"))
	require.NoError(t, s.Transact(t.Context(), nil, adding("a")))
	require.Equal(t, []uint64{2}, counted(t, s, "a"))
}

// Without WAL, a commit waits for readers until the busy_timeout.
func TestCommitFailsWhileAReaderHoldsTheLock(t *testing.T) {
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

func TestOnlyAnErrorOfCommitLeavesTheOutcomeUnknown(t *testing.T) {
	for prefix, notApplied := range map[string]bool{"PRAGMA busy_timeout": true, "PRAGMA busy_timeout = 0": true, "BEGIN": true, "SELECT": true, "INSERT": true, "COMMIT": false} {
		s, _, a := openRecording(t)
		u := adding("a")
		for _, write := range []func() error{
			func() error { return s.Transact(t.Context(), nil, u) },
			func() error { _, _, err := s.CompareAndSwap(t.Context(), creating("b")); return err },
		} {
			a.fail = failing(prefix, sqlite3.Error{Code: sqlite3.ErrIoErr})
			err := write()
			require.ErrorIs(t, err, storage.ErrUnavailable, prefix)
			require.Equal(t, notApplied, errors.Is(err, storage.ErrNotApplied), prefix)
			a.fail = nil
			require.NoError(t, write(), prefix)
		}
		require.Equal(t, []uint64{1}, counted(t, s, "a"))
	}
}
