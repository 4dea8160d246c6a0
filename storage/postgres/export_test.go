package postgres

import "time"

// The statements that are planned again and again.
func (s *Store) SwapSQL() string  { return s.sql.swap }
func (s *Store) LoadSQL() string  { return s.sql.load }
func (s *Store) PurgeSQL() string { return s.sql.purge }

// WaitFor is for how long groups that share a statement wait for a lock.
func (s *Store) WaitFor(patience time.Duration) { s.patience = patience }

// PurgeBatch is how many records a statement of a purge handles at most.
const PurgeBatch = purgeBatch
