package memstore

// growth is the move of all names to a larger index, a few at a time, so that no
// decision waits for all of them. Until it is over, names that are not in the
// new index may be in the old one.
//
// Nobody writes to the old index any more. So it may lead to entries that have
// been moved, freed or given to other names, which does no harm: an entry is
// found only if it has the name that is sought.
type growth struct {
	old  index
	next uint32 // the entry to be moved next
	end  uint32 // the last to be moved
}

// step is how many entries move whenever one is created. They are enough: an
// index is larger than the one before by a third, at least.
const step = 8

func (g *growth) underWay() bool { return len(g.old.slots) > 0 }

// grow makes room in the index for one more name.
func (t *table) grow() {
	if t.index.isFull(t.entries.held + 1) {
		t.growth = growth{t.index, 1, t.entries.used}
		t.index = nextIndex(len(t.index.slots))
	}
	if !t.growth.underWay() {
		return
	}
	for range step {
		if t.growth.next > t.growth.end {
			t.growth = growth{}
			return
		}
		t.move(t.growth.next)
		t.growth.next++
	}
}

// move enters an entry into the index, if it is not there. An entry that was
// freed and used again since the growth began is.
func (t *table) move(number uint32) {
	e := t.entries.at(number)
	if e.version == 0 {
		return
	}
	if i, there := t.index.find(e.hash(), &t.entries); there == 0 {
		t.index.set(i, e.hash(), number)
	}
}
