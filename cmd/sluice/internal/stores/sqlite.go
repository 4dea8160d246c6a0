//go:build cgo

package stores

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"

	"github.com/mattn/go-sqlite3"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/storage/sqlite"
)

// hasSQLite reports whether this program can open SQLite, which is written in C.
const hasSQLite = true

func (s *Store) sqlite(file string, o Options) error {
	settings := "_journal_mode=WAL&_synchronous=NORMAL"
	if o.Existing {
		settings = "mode=rw"
		if _, err := cli.StatFile(file, "the database of a program that uses sluice", "a file in it"); err != nil {
			return err
		}
	}
	name := (&url.URL{Path: file}).EscapedPath()
	db, err := sql.Open("sqlite3", "file:"+name+"?"+settings+"&_busy_timeout=5000&_stmt_cache_size=16")
	if err != nil {
		return err
	}
	if o.Existing {
		db.SetMaxOpenConns(1) // the store then keeps no connection, so SQLite removes its -wal and -shm files
	}
	s.close = func() { _ = db.Close() }
	store, err := sqlite.New(db, sqlite.Options{Table: o.Table})
	s.Store = store
	s.Prepare = func(ctx context.Context) error {
		// Keys may be personal data, so nobody else may read a new file. SQLite reports why a file
		// cannot be created, and gives the files beside it the same mode.
		if f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_ = f.Close()
		}
		return store.Migrate(ctx)
	}
	return err
}

// TextOfTrigger returns the text of an error that a trigger of SQLite raises.
func TextOfTrigger(err error) (text string, ok bool) {
	var e sqlite3.Error
	if errors.As(err, &e) && e.ExtendedCode == sqlite3.ErrConstraintTrigger {
		return e.Error(), true
	}
	return "", false
}
