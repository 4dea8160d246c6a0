package observe

// summary counts the most frequent items of a stream with few counters. It is the
// Space-Saving algorithm of A. Metwally, D. Agrawal and A. El Abbadi, "Efficient Computation
// of Frequent and Top-k Elements in Data Streams", ICDT 2005.
//
// An item without a counter takes over the lowest counter. The count that it takes over is
// the error of its own count. So the counts add up to the number of items, and no error is
// higher than that number divided by the number of counters.
//
// Each step takes constant time. The counters are sorted, and counters with equal counts are
// in one bucket. A counter that grows by 1 swaps places with the first of its bucket.
type summary struct {
	size     int
	total    uint64 // items so far
	index    map[uint64]*counterOf
	counters []*counterOf // in descending order
	free     []*bucket
}

// counterOf is the counter of one item.
type counterOf struct {
	item   uint64 // a hash
	count  uint64
	error  uint64 // count is at most this much too high
	place  int    // the index in counters
	bucket *bucket

	rule string
	key  []byte // from cutKey
}

// bucket is the counters that have the same count, from the index first.
type bucket struct{ first int }

func newSummary(size int) *summary {
	return &summary{size: size, index: make(map[uint64]*counterOf)}
}

// add counts an item once. isNew reports whether the item had no counter. The caller must
// then set the rule and the key.
func (s *summary) add(item uint64) (c *counterOf, isNew bool) {
	s.total++
	if c = s.index[item]; c == nil {
		c, isNew = s.assign(item), true
	}
	s.increment(c)
	return c, isNew
}

// assign returns a counter for an item that has none: a new one, or else the lowest.
func (s *summary) assign(item uint64) *counterOf {
	var c *counterOf
	if last := len(s.counters); last < s.size {
		c = &counterOf{place: last, bucket: &bucket{first: last}}
		s.counters = append(s.counters, c)
	} else {
		c = s.counters[last-1]
		delete(s.index, c.item)
		c.error = c.count
	}
	c.item = item
	s.index[item] = c
	return c
}

// increment adds 1 to a counter. The counter moves to the front of its bucket, and from
// there to the bucket before it, or to a new one.
func (s *summary) increment(c *counterOf) {
	old, place := c.bucket, c.bucket.first
	first := s.counters[place]
	s.counters[place], s.counters[c.place] = c, first
	first.place, c.place = c.place, place
	c.count++
	old.first++
	isEmpty := old.first == len(s.counters) || s.counters[old.first].bucket != old
	switch {
	case place > 0 && s.counters[place-1].count == c.count:
		c.bucket = s.counters[place-1].bucket
		if isEmpty {
			s.free = append(s.free, old)
		}
	case isEmpty:
		old.first = place // the bucket moves with its only counter
	default:
		c.bucket = s.newBucket(place)
	}
}

func (s *summary) newBucket(first int) *bucket {
	last := len(s.free) - 1
	if last < 0 {
		return &bucket{first}
	}
	b := s.free[last]
	s.free = s.free[:last]
	b.first = first
	return b
}

// maxMissing is how often an item without a counter can have occurred at most.
func (s *summary) maxMissing() uint64 {
	if len(s.counters) < s.size {
		return 0
	}
	return s.counters[s.size-1].count
}
