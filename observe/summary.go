package observe

import "sort"

// summary counts the most frequent items of a stream with few counters. It is the
// Space-Saving algorithm of A. Metwally, D. Agrawal and A. El Abbadi, "Efficient Computation
// of Frequent and Top-k Elements in Data Streams", ICDT 2005.
//
// An item without a counter takes over the lowest counter. The count that it takes over is
// the error bound of its own count. So the counts add up to the number of items, and no
// error bound is higher than that number divided by the number of counters.
type summary struct {
	size     int
	total    uint64 // items so far
	index    map[uint64]*counter
	counters []*counter // in descending order of their counts
}

// counter is the counter of one item.
type counter struct {
	item       uint64 // a hash
	count      uint64
	errorBound uint64
	place      int // the index in counters

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
	// The first of the counters with the same count can grow without breaking the order.
	place := sort.Search(c.place, func(i int) bool { return s.counters[i].count == c.count })
	first := s.counters[place]
	s.counters[place], s.counters[c.place] = c, first
	c.place, first.place = place, c.place
	c.count++
	return c, !found
}

// assign returns a counter for an item that has none: a new one, or else the lowest.
func (s *summary) assign(item uint64) *counter {
	n := len(s.counters)
	if n < s.size {
		s.counters = append(s.counters, &counter{place: n})
	} else {
		n--
		delete(s.index, s.counters[n].item)
		s.counters[n].errorBound = s.counters[n].count
	}
	c := s.counters[n]
	c.item, s.index[item] = item, c
	return c
}

// maxMissing is how often an item without a counter can have occurred at most.
func (s *summary) maxMissing() uint64 {
	if len(s.counters) < s.size {
		return 0
	}
	return s.counters[s.size-1].count
}
