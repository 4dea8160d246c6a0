package storage

// line is a key that is under way, or waited for.
type line struct {
	group *group // that has it under way
	at    int    // among the keys of that
	asked int    // the trip that those who wait in it are about to be asked along on
	waiters
}

// waiters are calls in the order in which they came.
type waiters struct{ first, last *place }

// place is that of a call among others who wait.
type place struct {
	call          *call
	line          *line
	before, after *place
}

func (w *waiters) push(p *place) {
	p.before = w.last
	if w.last == nil {
		w.first = p
	} else {
		w.last.after = p
	}
	w.last = p
}

func (w *waiters) pushFirst(p *place) {
	p.after = w.first
	if w.first == nil {
		w.last = p
	} else {
		w.first.before = p
	}
	w.first = p
}

func (w *waiters) remove(p *place) {
	if p.before == nil {
		w.first = p.after
	} else {
		p.before.after = p.after
	}
	if p.after == nil {
		w.last = p.before
	} else {
		p.after.before = p.before
	}
	p.before, p.after = nil, nil
}
