package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

func TestTableIsStrictAndWithoutRowid(t *testing.T) {
	db := database(t, "_journal_mode=WAL")
	open(t, db, sqlite.Options{})
	var strict, withoutRowid bool
	require.NoError(t, db.QueryRow("SELECT strict, wr FROM pragma_table_list WHERE name = ?", sqlite.DefaultTable).Scan(&strict, &withoutRowid))
	require.True(t, strict)
	require.True(t, withoutRowid)
	_, err := db.Exec("INSERT INTO " + sqlite.DefaultTable + " (key, version, state) VALUES ('text', 1, x'')")
	require.ErrorContains(t, err, "cannot store TEXT value in BLOB column")
}

// Every connection to ":memory:" opens a new database.
func TestDatabaseInMemoryNeedsASingleConnection(t *testing.T) {
	db := database(t, "mode=memory")
	db.SetMaxOpenConns(1)
	s := open(t, db, sqlite.Options{})
	_, swapped, err := s.CompareAndSwap(t.Context(), creating("a"))
	require.NoError(t, err)
	require.True(t, swapped)

	db.SetMaxOpenConns(2)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, _, err = s.Load(t.Context(), "a")
	require.ErrorContains(t, err, "no such table")
	require.NotErrorIs(t, err, storage.ErrUnavailable)
}

func TestTableNamesIgnoreTheCaseOfASCIILetters(t *testing.T) {
	db := database(t, "_journal_mode=WAL")
	for _, test := range []struct {
		table string
		isNew bool
	}{{"Limits", true}, {"limits", false}, {"límits", true}, {"lÍmits", true}} {
		s := open(t, db, sqlite.Options{Table: test.table})
		_, swapped, err := s.CompareAndSwap(t.Context(), creating("a"))
		require.NoError(t, err)
		require.Equal(t, test.isNew, swapped, test.table)
	}
}
