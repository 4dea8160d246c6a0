package postgres

// The statements that are planned again and again.
func (s *Store) SwapSQL() string { return s.sql.swap }
func (s *Store) LoadSQL() string { return s.sql.load }
