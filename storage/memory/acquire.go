package memory

// acquire locks the shards of names, finds the numbers of their entries, 0 for
// those that are absent, and reserves room for these.
func (s *Store) acquire(names []Name, numbers []uint32, at int64) (locked uint64, reserved int, err error) {
	for {
		locked = s.lock(names)
		absent := 0
		for i, n := range names {
			if numbers[i] = s.table(n).find(n); numbers[i] == 0 {
				absent++
			}
		}
		if absent == 0 || s.reserve(absent) {
			return locked, absent, nil
		}
		s.unlock(locked)
		if err := s.makeRoom(absent, at); err != nil {
			return 0, 0, err
		}
	}
}

// release unlocks, and gives back what was reserved and not needed after all.
func (s *Store) release(locked uint64, reserved int) {
	if reserved != 0 {
		s.keys.Add(int64(-reserved))
	}
	s.unlock(locked)
}
