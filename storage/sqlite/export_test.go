package sqlite

// PurgeSQL is the statement that removes expired records.
func (s *Store) PurgeSQL() string { return s.sql.purge }

// PurgeBatch is how many records it removes at most.
const PurgeBatch = purgeBatch
