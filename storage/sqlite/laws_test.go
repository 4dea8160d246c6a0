package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/sqlite"
	"github.com/sluice-go/sluice/storage/storagetest"
)

func database(t *testing.T, options string) *sql.DB {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "test.db")+"?"+options)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func open(t *testing.T, db *sql.DB, o sqlite.Options) *sqlite.Store {
	s, err := sqlite.New(db, o)
	require.NoError(t, err)
	require.NoError(t, s.Migrate(context.Background()))
	return s
}

func TestLaws(t *testing.T) {
	for name, options := range map[string]string{
		"WAL":              "_journal_mode=WAL&_synchronous=NORMAL",
		"rollback journal": "_synchronous=OFF",
		"statement cache":  "_journal_mode=WAL&_synchronous=OFF&_stmt_cache_size=16",
	} {
		t.Run(name, func(t *testing.T) {
			storagetest.Run(t, func(t *testing.T) storagetest.Harness {
				var advanced atomic.Int64
				clock := func() time.Time { return time.Now().Add(time.Duration(advanced.Load())) }
				db := database(t, options)
				return storagetest.Harness{
					Store:   open(t, db, sqlite.Options{Clock: clock}),
					Other:   open(t, db, sqlite.Options{Table: `odd " name`, Clock: clock}),
					Advance: func(d time.Duration) { advanced.Add(int64(d)) },
					DropWrites: func(key string) {
						for verb, row := range map[string]string{"INSERT": "NEW", "UPDATE": "NEW", "DELETE": "OLD"} {
							_, err := db.Exec(fmt.Sprintf("CREATE TRIGGER '%s %x' BEFORE %s ON %s WHEN %s.key = x'%x' BEGIN SELECT RAISE(IGNORE); END",
								verb, key, verb, sqlite.DefaultTable, row, key))
							require.NoError(t, err)
						}
					},
				}
			})
		})
	}
}
