package sqlite_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage/sqlite"
	"github.com/sluice-go/sluice/storage/storagetest"
)

func TestLaws(t *testing.T) {
	for name, options := range map[string]string{
		"WAL":              "?_journal_mode=WAL&_synchronous=NORMAL",
		"rollback journal": "?_synchronous=OFF",
		"statement cache":  "?_journal_mode=WAL&_synchronous=OFF&_stmt_cache_size=16",
	} {
		t.Run(name, func(t *testing.T) {
			storagetest.Run(t, func(t *testing.T) storagetest.Harness {
				var advanced atomic.Int64
				clock := func() time.Time { return time.Now().Add(time.Duration(advanced.Load())) }
				db := openDB(t, newFile(t, options))
				return storagetest.Harness{
					Store:   open(t, db, sqlite.Options{Clock: clock}),
					Other:   open(t, db, sqlite.Options{Table: `odd " name`, Clock: clock}),
					Advance: func(d time.Duration) { advanced.Add(int64(d)) },
					DropWrites: func(key string) {
						for verb, row := range map[string]string{"INSERT": "NEW", "UPDATE": "NEW", "DELETE": "OLD"} {
							mustExec(t, db, fmt.Sprintf("CREATE TRIGGER '%s %x' BEFORE %s ON %s WHEN %s.key = x'%x' BEGIN SELECT RAISE(IGNORE); END",
								verb, key, verb, sqlite.DefaultTable, row, key))
						}
					},
				}
			})
		})
	}
}

func TestDecisionsOfTwoPoolsAreCountedWithEverySetting(t *testing.T) {
	const limit, goroutines, each = 1_000_000, 3, 25
	for name, options := range map[string]string{
		"WAL":                      "?_journal_mode=WAL&_synchronous=NORMAL",
		"WAL, no busy_timeout":     "?_journal_mode=WAL&_synchronous=OFF&_busy_timeout=0",
		"journal, no busy_timeout": "?_journal_mode=DELETE&_synchronous=OFF&_busy_timeout=0",
		"journal, persistent":      "?_journal_mode=PERSIST&_synchronous=OFF",
		"shared cache":             "?_synchronous=OFF&cache=shared",
		"in memory":                "?mode=memory&cache=shared",
		"statement cache":          "?_journal_mode=WAL&_synchronous=OFF&_stmt_cache_size=4",
		"txlock":                   "?_journal_mode=WAL&_synchronous=OFF&_txlock=exclusive",
	} {
		t.Run(name, func(t *testing.T) {
			dsn, spec := newFile(t, options), fmt.Sprintf("fixedwindow %d/8760h", limit)
			var last *sluice.Limiter[string]
			var group sync.WaitGroup
			for range 2 {
				l, err := sluice.Options[string]{Timeout: 30 * time.Second}.New(open(t, openDB(t, dsn), sqlite.Options{}),
					sluice.PerKey(spec), sluice.By("all", func(string) string { return "" }, spec))
				require.NoError(t, err)
				last = l
				for range goroutines {
					group.Go(func() {
						for range each {
							_, err := l.Allow(t.Context(), "a")
							assert.NoError(t, err)
						}
					})
				}
			}
			group.Wait()
			d, err := last.Peek(t.Context(), "a")
			require.NoError(t, err)
			for _, r := range d.Results {
				require.EqualValues(t, limit-2*goroutines*each, r.Remaining)
			}
		})
	}
}
