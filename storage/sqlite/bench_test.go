package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// Groups of one key each, swapped again and again: the cost is that of one
// group.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("groups=", size), func(b *testing.B) {
			db, err := sql.Open("sqlite3", "file:"+filepath.Join(b.TempDir(), "bench.db")+"?_journal_mode=WAL&_synchronous=NORMAL&_stmt_cache_size=16")
			require.NoError(b, err)
			defer db.Close()
			s, err := sqlite.New(db, sqlite.Options{})
			require.NoError(b, err)
			require.NoError(b, s.Migrate(context.Background()))
			groups := make([][]storage.Swap, size)
			for i := range groups {
				groups[i] = []storage.Swap{creating(fmt.Sprint("key ", i))}
			}
			b.ResetTimer()
			for n := 0; n < b.N; n += size {
				for i, o := range s.CompareAndSwapBatch(context.Background(), groups...) {
					if !o.Swapped {
						b.Fatal(o)
					}
					s := &groups[i][0]
					s.Old, s.New.Version = s.New.Version, storage.NewVersion()
					s.TTL, s.Until = time.Minute, time.Now().Add(time.Minute)
				}
			}
		})
	}
}
