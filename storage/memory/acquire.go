package memory

// acquire locks the shards of names, finds the numbers of their entries, 0 for
// those that are absent, and makes sure that there is room for these.
func (s *Store) acquire(names []Name, numbers []uint32, at int64) (locked uint64, room int, err error) {
	for {
		locked, room = s.lock(names), 0
		for i, n := range names {
			if numbers[i] = s.table(n).find(n); numbers[i] == 0 {
				room++
			}
		}
		if room == 0 || s.reserve(room) {
			return locked, room, nil
		}
		s.unlock(locked)
		if err := s.makeRoom(room, at); err != nil {
			return 0, 0, err
		}
	}
}

// release unlocks, and gives back the room that was not needed after all.
func (s *Store) release(locked uint64, room int) {
	if room != 0 {
		s.keys.Add(int64(-room))
	}
	s.unlock(locked)
}
