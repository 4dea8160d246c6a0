package postgres

import "time"

// The statements that are planned again and again.
func (s *Store) SwapSQL() string    { return s.sql.swap }
func (s *Store) LoadSQL() string    { return s.sql.load }
func (s *Store) LoadNowSQL() string { return s.sql.loadNow }
func (s *Store) PurgeSQL() string   { return s.sql.purge }

// SetLockTimeout sets the lock timeout of requests that share a statement.
func (s *Store) SetLockTimeout(lockTimeout time.Duration) { s.batchLockTimeout = lockTimeout }

// OneFunction creates the function for batches of one request.
func (s *Store) OneFunction() string { return s.options.createOne(s.functions) }

// EditRun changes the statements of Run.
func (s *Store) EditRun(edit func(sql string) string) {
	s.sql.one, s.sql.singles, s.sql.several = edit(s.sql.one), edit(s.sql.singles), edit(s.sql.several)
}

// PurgeBatch is how many records a statement of a purge handles at most.
const PurgeBatch = purgeBatch

// The statements of Run.
func (s *Store) SinglesSQL() string { return s.sql.singles }
func (s *Store) SeveralSQL() string { return s.sql.several }
