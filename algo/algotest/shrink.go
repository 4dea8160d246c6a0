package algotest

import "github.com/sluice-go/sluice/algo"

// shrink looks for a shorter history, earlier times and smaller costs that break
// the law still.
func (h *hunt) shrink(f *finding) *finding {
	for budget := 2000; budget > 0; {
		smaller := h.shrinkOnce(f, &budget)
		if smaller == nil {
			break
		}
		f = smaller
	}
	return f
}

func (h *hunt) shrinkOnce(f *finding, budget *int) *finding {
	history := f.past.history()
	attempt := func(history []event, now int64) *finding {
		*budget--
		return h.replay(history, f.limit, now)
	}
	for i := range history {
		without := append(append([]event(nil), history[:i]...), history[i+1:]...)
		if g := attempt(without, f.now); g != nil {
			return g
		}
	}
	for i, e := range history {
		for _, cost := range []int64{1, e.cost / 2, e.cost - 1} {
			if cost < 1 || cost >= e.cost {
				continue
			}
			cheaper := append([]event(nil), history...)
			cheaper[i].cost = cost
			if g := attempt(cheaper, f.now); g != nil {
				return g
			}
		}
	}
	start := epoch.UnixNano()
	if len(history) == 0 {
		if f.now != start {
			return attempt(nil, start)
		}
		return nil
	}
	if by := history[0].at - start; by != 0 {
		if g := attempt(moved(history, 0, -by), f.now-by); g != nil {
			return g
		}
	}
	last := start
	for i := 0; i <= len(history); i++ {
		at := f.now
		if i < len(history) {
			at = history[i].at
		}
		for _, by := range []int64{at - last, (at - last) / 2, 1} {
			if by <= 0 || by > at-last {
				continue
			}
			if g := attempt(moved(history, i, -by), f.now-by); g != nil {
				return g
			}
		}
		last = at
	}
	return nil
}

// moved is the history with everything from event i on moved in time.
func moved(history []event, i int, by int64) []event {
	m := append([]event(nil), history...)
	for ; i < len(m); i++ {
		m[i].at += by
	}
	return m
}

// replay runs a history afresh and judges its end.
func (h *hunt) replay(history []event, limit algo.Limit, now int64) *finding {
	if now < 0 || now > algo.MaxInstant {
		return nil
	}
	h.known = seen{}
	n := root()
	for _, e := range history {
		policy, err := h.subject.New(e.limit)
		if err != nil || e.at < 0 || e.at > algo.MaxInstant {
			return nil
		}
		n = h.try(n, policy, e)
	}
	policy, err := h.subject.New(limit)
	if err != nil || !h.law.skewed && now < n.latest {
		return nil
	}
	return h.examine(n, limit, policy, now)
}
