package postgres

// SwapSQL is the statement of a swap.
func (s *Store) SwapSQL() string { return s.sql.swap }
