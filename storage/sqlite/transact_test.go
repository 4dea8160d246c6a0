package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
