package postgres

import (
	"time"

	"github.com/sluice-go/sluice/internal/program"
)

// The SQL statements of the store.
func (s *Store) SwapSQL() string  { return s.sql.swap }
func (s *Store) LoadSQL() string  { return s.sql.load }
func (s *Store) PurgeSQL() string { return s.sql.purge }

// SetLockTimeout sets the lock timeout of batches.
func (s *Store) SetLockTimeout(lockTimeout time.Duration) { s.batchLockTimeout = lockTimeout }

// OneFunction returns the statement that creates the function for batches of one request.
func (s *Store) OneFunction() string {
	return program.Create(s.options.Schema, s.allFunctions[len(s.allFunctions)-1])
}

// EditRun edits the statements of Run.
func (s *Store) EditRun(edit func(sql string) string) {
	s.sql.one, s.sql.singles, s.sql.several = edit(s.sql.one), edit(s.sql.singles), edit(s.sql.several)
}

// PurgeBatch is the maximum number of records that a statement of Purge handles.
const PurgeBatch = purgeBatch

func (s *Store) SinglesSQL() string { return s.sql.singles }
func (s *Store) SeveralSQL() string { return s.sql.several }
