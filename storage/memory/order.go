package memory

// order is a heap of entries, the first to lapse on top.
//
// Most writes give a record more time. They leave the heap alone: a leaf holds
// an instant no later than its entry's, and is put right when it comes to the top. So a write
// costs nothing here, and an eviction, on average, no more than the writes
// since the last one saved.
type order []leaf

type leaf struct {
	lapses int64 // when the entry lapses, or earlier
	slot   uint32
}

// add puts an entry in.
func (o *order) add(entries []entry, slot uint32, lapses int64) {
	*o = append(*o, leaf{lapses, slot})
	o.up(entries, len(*o)-1)
}

// hasten is told that the entry at place lapses then. It moves only if that is
// earlier than what the heap believes.
func (o order) hasten(entries []entry, place uint32, lapses int64) {
	if lapses < o[place].lapses {
		o[place].lapses = lapses
		o.up(entries, int(place))
	}
}

// remove takes the entry at place out.
func (o *order) remove(entries []entry, place uint32) {
	end := len(*o) - 1
	moved := (*o)[end]
	*o = (*o)[:end]
	if int(place) == end {
		return
	}
	(*o)[place] = moved
	entries[moved.slot].place = place
	o.down(entries, int(place))
	o.up(entries, int(place))
}

// settle corrects the top until it is the entry that lapses first.
func (o order) settle(entries []entry) bool {
	for len(o) > 0 {
		lapses := entries[o[0].slot].lapses
		if o[0].lapses == lapses {
			return true
		}
		o[0].lapses = lapses
		o.down(entries, 0)
	}
	return false
}

func (o order) up(entries []entry, i int) {
	l := o[i]
	for i > 0 {
		parent := (i - 1) / 2
		if o[parent].lapses <= l.lapses {
			break
		}
		o.set(entries, i, o[parent])
		i = parent
	}
	o.set(entries, i, l)
}

func (o order) down(entries []entry, i int) {
	l := o[i]
	for {
		child := 2*i + 1
		if child >= len(o) {
			break
		}
		if child+1 < len(o) && o[child+1].lapses < o[child].lapses {
			child++
		}
		if l.lapses <= o[child].lapses {
			break
		}
		o.set(entries, i, o[child])
		i = child
	}
	o.set(entries, i, l)
}

func (o order) set(entries []entry, i int, l leaf) {
	o[i] = l
	entries[l.slot].place = uint32(i)
}
