package observe

// summary counts the most frequent items of a stream with few counters: the
// Space-Saving algorithm of A. Metwally, D. Agrawal and A. El Abbadi, "Efficient
// Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005. An item
// that has no counter takes over the least one, and what that had counted is the
// error of its own count. So the counts add up to the length of the stream, and no
// error is more than that divided by the number of counters.
//
// Each step takes constant time: the counters are sorted, and one that grows by 1
// stays in order if it changes places with the first of its equals.
type summary struct {
	size     int
	length   uint64 // of the stream
	index    map[uint64]*count
	counters []*count // the greatest first
	spare    []*run
}

// count is one counter.
type count struct {
	item  uint64 // its hash
	n     uint64
	error uint64 // by how much n may be too large
	place int    // among the counters
	run   *run

	rule string
	key  []byte // cut, see cutKey
}

// run is the counters that are equal.
type run struct{ first int }

func newSummary(size int) *summary {
	return &summary{size: size, index: make(map[uint64]*count)}
}

// add counts an item once. taken is set if the item has not had a counter, and
// its rule and key are still to be set.
func (s *summary) add(item uint64) (c *count, taken bool) {
	s.length++
	if c = s.index[item]; c == nil {
		c, taken = s.take(item), true
	}
	s.grow(c)
	return c, taken
}

// take finds a counter for an item that has none.
func (s *summary) take(item uint64) *count {
	var c *count
	if last := len(s.counters); last < s.size {
		c = &count{place: last, run: &run{first: last}}
		s.counters = append(s.counters, c)
	} else {
		c = s.counters[last-1]
		delete(s.index, c.item)
		c.error = c.n
	}
	c.item = item
	s.index[item] = c
	return c
}

// grow adds 1 to a counter. It leaves its run, from the front, for the one before.
func (s *summary) grow(c *count) {
	left, place := c.run, c.run.first
	first := s.counters[place]
	s.counters[place], s.counters[c.place] = c, first
	first.place, c.place = c.place, place
	c.n++
	left.first++
	emptied := left.first == len(s.counters) || s.counters[left.first].run != left
	joins := place > 0 && s.counters[place-1].n == c.n
	switch {
	case joins:
		c.run = s.counters[place-1].run
		if emptied {
			s.spare = append(s.spare, left)
		}
	case emptied:
		left.first = place
	default:
		c.run = s.newRun(place)
	}
}

func (s *summary) newRun(first int) *run {
	last := len(s.spare) - 1
	if last < 0 {
		return &run{first}
	}
	r := s.spare[last]
	s.spare = s.spare[:last]
	r.first = first
	return r
}

// missing is the most that an item without a counter can have occurred.
func (s *summary) missing() uint64 {
	if len(s.counters) < s.size {
		return 0
	}
	return s.counters[s.size-1].n
}
