package sqlite

// The statements that are explained.
func (s *Store) CreateSQL() string        { return s.sql.create }
func (s *Store) ReplaceSQL() string       { return s.sql.replace }
func (s *Store) ReplaceSoonerSQL() string { return s.sql.replaceSooner }
func (s *Store) RefileSQL() string        { return s.sql.refile }
func (s *Store) PurgeSQL() string         { return s.sql.purge }

// PurgeBatch is how many records a transaction of a purge handles at most.
const PurgeBatch = purgeBatch
