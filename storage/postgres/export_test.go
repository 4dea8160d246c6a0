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

// CreateRun returns the statements that create the functions of Run: one, singles and several.
func (s *Store) CreateRun() (create []string) {
	for _, f := range s.allFunctions[len(s.functions.All):] {
		create = append(create, program.Create(s.options.Schema, f))
	}
	return create
}

// PurgeBatch is the maximum number of records that a statement of Purge handles.
const PurgeBatch = purgeBatch
