package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/sqlite"
)

// SQLite does not wait if two connections switch a new file to WAL at the same time.
func TestConcurrentStoresCreateOneFile(t *testing.T) {
	const stores = 16
	for name, options := range map[string]string{"WAL": wal, "rollback journal": journal} {
		t.Run(name, func(t *testing.T) {
			for round := range 10 {
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
