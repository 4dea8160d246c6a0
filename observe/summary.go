package observe

import "sort"

// summary counts the most frequent items of a stream with few counters, by the algorithm
// Space-Saving ("Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).
//
// An item without a counter takes over the lowest counter. The count that it takes over is
// the error bound of its own count. So the counts add up to the number of items, and no
// error bound is higher than that number divided by the number of counters.
type summary struct {
	size     int
	total    uint64 // items so far
	index    map[uint64]*counter
	counters []*counter
	counts   []uint64 // of the counters, in descending order
}

// counter is the counter of one item.
type counter struct {
	item       uint64 // a hash
	errorBound uint64 // of the count
	place      int    // the index in counters and counts

	rule string
	key  []byte // from cutKey
}

func newSummary(size int) *summary {
	return &summary{size: size, index: make(map[uint64]*counter)}
}

// add counts an item once. isNew reports whether the item had no counter. The caller must
// then set the rule and the key.
func (s *summary) add(item uint64) (c *counter, isNew bool) {
	s.total++
	c, found := s.index[item]
	if !found {
		c = s.assign(item)
	}
	// The counter takes the first place of its count, so that its count can grow there.
	count := s.counts[c.place]
	place := sort.Search(c.place, func(i int) bool { return s.counts[i] == count })
	first := s.counters[place]
	s.counters[place], s.counters[c.place] = c, first
	c.place, first.place = place, c.place
	s.counts[place]++
	return c, !found
}

// assign returns a counter for an item that has none: a new one, or else the lowest.
func (s *summary) assign(item uint64) *counter {
	last := len(s.counters) - 1
	if last+1 < s.size {
		last++
		s.counters, s.counts = append(s.counters, &counter{place: last}), append(s.counts, 0)
	} else {
		delete(s.index, s.counters[last].item)
		s.counters[last].errorBound = s.counts[last]
	}
	c := s.counters[last]
	c.item, s.index[item] = item, c
	return c
}

// maxMissing is how often an item without a counter can have occurred at most.
func (s *summary) maxMissing() uint64 {
	if len(s.counts) < s.size {
		return 0
	}
	return s.counts[s.size-1]
}
