package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// Updates of one key each, of different keys or all of one: the cost is that of one update.
func BenchmarkTransact(b *testing.B) {
	for _, size := range []int{1, 8, 64} {
		for _, keys := range []int{size, 1} {
			b.Run(fmt.Sprint("updates=", size, "/keys=", keys), func(b *testing.B) {
				s := benchStore(b)
				updates := make([]*driver.Update, size)
				for i := range updates {
					updates[i] = adding(fmt.Sprint("key ", i%keys))
				}
				b.ResetTimer()
				for n := 0; n < b.N; n += size {
					if err := s.Transact(context.Background(), nil, updates...); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func benchStore(b *testing.B) *sqlite.Store {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(b.TempDir(), "bench.db")+"?_journal_mode=WAL&_synchronous=NORMAL&_stmt_cache_size=16")
	require.NoError(b, err)
	b.Cleanup(func() { db.Close() })
	s, err := sqlite.New(db, sqlite.Options{})
	require.NoError(b, err)
	require.NoError(b, s.Migrate(context.Background()))
	return s
}
