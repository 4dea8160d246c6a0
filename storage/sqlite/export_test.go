package sqlite

// The tests run EXPLAIN on these statements.
func (s *Store) PostponeSQL() string { return s.sql.postpone }
func (s *Store) PurgeSQL() string    { return s.sql.purge }

// PurgeBatch is the maximum number of records in a transaction of Purge.
const PurgeBatch = purgeBatch
