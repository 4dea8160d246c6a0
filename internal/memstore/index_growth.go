package memstore

// indexGrowth moves all hashes to a larger index, some of them in each step, so that no decision
// waits for all of them. Until it ends, a hash that is not in the new index may be in the old one.
//
// The old index is not changed any more. Its slots may lead to entries that were moved, freed or used
// again. That does no harm, because find compares the hash of the entry.
type indexGrowth struct {
	old  index
	next uint32 // the number of the next entry to move
	last uint32 // the number of the last entry to move
}

// growthStep is the number of entries to move when an entry is created. Because the new index is larger
// by at least a third, the growth ends before the new index is full.
const growthStep = 8

func (g *indexGrowth) isActive() bool { return len(g.old.slots) > 0 }

// growIndex makes space in the index for one more entry.
func (t *table) growIndex() {
	if t.index.isFull(t.entries.count + 1) {
		t.growth = indexGrowth{t.index, 1, t.entries.highest}
		t.index = nextIndex(len(t.index.slots))
	}
	for moved := 0; moved < growthStep && t.growth.isActive(); moved++ {
		if t.growth.next > t.growth.last {
			t.growth = indexGrowth{}
			return
		}
		t.move(t.growth.next)
		t.growth.next++
	}
}

// move adds an entry to the index, unless the entry is free, or was used again since the growth began.
func (t *table) move(number uint32) {
	e := t.entries.at(number)
	if e.version == 0 {
		return
	}
	if slot, found := t.index.find(e.hash(), &t.entries); found == 0 {
		t.index.set(slot, e.hash(), number)
	}
}
