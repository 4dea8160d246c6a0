package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/sqlite"
)

func TestTransactionReadsAndWritesEachKeyOnce(t *testing.T) {
	s, _, a := openRecording(t, sqlite.Options{})
	add(t, s, "a")
	a.texts = nil
	require.NoError(t, s.Transact(t.Context(), nil, adding("a"), adding("a"), adding("a")))
	require.Equal(t, []uint64{4}, numbers(t, s, "a"))
	var kinds []string
	for _, text := range a.texts[:6] {
		kinds = append(kinds, strings.Fields(text)[0])
	}
	require.Equal(t, []string{"PRAGMA", "PRAGMA", "BEGIN", "SELECT", "UPDATE", "COMMIT"}, kinds)
}

func TestTransactionWithoutChangesWritesNothing(t *testing.T) {
	for name, options := range modes {
		s, _, dsn := newStore(t, options)
		add(t, s, "a")
		file := strings.TrimPrefix(dsn[:strings.Index(dsn, "?")], "file:")
		content := func() (all string) {
			for _, name := range []string{file, file + "-wal", file + "-journal"} {
				content, err := os.ReadFile(name)
				all += fmt.Sprint(string(content), errors.Is(err, os.ErrNotExist))
			}
			return all
		}
		before := content()
		keep := updating(func([]driver.Item) bool { return true }, "a", "b")
		refused := updating(func(items []driver.Item) bool { items[0].Next.Verb = driver.Delete; return false }, "a")
		remove := updating(func(items []driver.Item) bool { items[0].Next.Verb = driver.Delete; return true }, "b")
		require.NoError(t, s.Transact(t.Context(), nil, keep, refused, remove))
		require.True(t, before == content(), "%s: a file has changed", name)
	}
}

// A retry does not help. An AFTER trigger may write another table.
func TestTriggerThatDropsAWriteIsAnError(t *testing.T) {
	for _, c := range []struct {
		trigger string
		fails   string // the write that fails
	}{
		{"BEFORE INSERT ON t BEGIN SELECT RAISE(IGNORE)", "create"},
		{"BEFORE INSERT ON t BEGIN INSERT INTO t VALUES (NEW.key, 1, x'00', NULL, NULL)", "create"},
		{"BEFORE UPDATE ON t BEGIN SELECT RAISE(IGNORE)", "replace"},
		{"BEFORE DELETE ON t BEGIN SELECT RAISE(IGNORE)", "delete"},
		{"AFTER UPDATE ON t BEGIN INSERT INTO audit VALUES (OLD.key)", "none"},
	} {
		t.Run(c.trigger, func(t *testing.T) {
			db := openDB(t, newFile(t, wal))
			s := open(t, db, sqlite.Options{Table: "t"})
			old := creating("old")
			swap(t, s, old, creating("other"))
			mustExec(t, db, "CREATE TABLE audit (key BLOB); CREATE TRIGGER x "+c.trigger+"; END")
			before := rows(t, db, "SELECT * FROM t")
			replaced := creating("old")
			replaced.Old, replaced.TTL = old.New.Version, time.Hour
			if c.fails == "none" {
				swap(t, s, replaced)
				return
			}
			write := map[string]storage.Swap{"create": creating("new"), "replace": replaced, "delete": {Key: "old", Old: old.New.Version}}[c.fails]
			u := updating(func(items []driver.Item) bool {
				if items[0].Next = (driver.Change{Verb: driver.Put, State: []byte("state"), TTL: write.TTL}); c.fails == "delete" {
					items[0].Next = driver.Change{Verb: driver.Delete}
				}
				return true
			}, write.Key)
			_, _, alone := s.CompareAndSwap(t.Context(), write)
			_, _, beside := s.CompareAndSwap(t.Context(), creating("beside"), write)
			for _, err := range []error{alone, beside, s.Transact(t.Context(), nil, u)} {
				require.ErrorIs(t, err, storage.ErrNotApplied)
				require.NotErrorIs(t, err, storage.ErrContended)
				require.NotErrorIs(t, err, storage.ErrUnavailable)
				require.ErrorContains(t, err, "trigger")
				var of *storage.KeyError
				require.ErrorAs(t, err, &of)
				require.Contains(t, []string{write.Key, "beside"}, of.Key)
			}
			require.Equal(t, before, rows(t, db, "SELECT * FROM t"))
		})
	}
}
