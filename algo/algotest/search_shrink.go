package algotest

import (
	"slices"

	"github.com/sluice-go/sluice/algo"
)

// shrink looks for a shorter history, earlier times and smaller costs that also break the
// law.
func (s *search) shrink(v *violation) *violation {
	for budget := 2000; budget > 0; {
		smaller := s.shrinkOnce(v, &budget)
		if smaller == nil {
			break
		}
		v = smaller
	}
	return v
}

func (s *search) shrinkOnce(v *violation, budget *int) *violation {
	history := v.past.history()
	attempt := func(history []event, now int64) *violation {
		*budget--
		return s.replay(history, v.limit, now)
	}
	for i := range history {
		if smaller := attempt(slices.Delete(slices.Clone(history), i, i+1), v.now); smaller != nil {
			return smaller
		}
	}
	for i, e := range history {
		for _, cost := range []int64{1, e.cost / 2, e.cost - 1} {
			if cost < 1 || cost >= e.cost {
				continue
			}
			cheaper := slices.Clone(history)
			cheaper[i].cost = cost
			if smaller := attempt(cheaper, v.now); smaller != nil {
				return smaller
			}
		}
	}
	start := epoch.UnixNano()
	if len(history) == 0 {
		if v.now != start {
			return attempt(nil, start)
		}
		return nil
	}
	if by := history[0].at - start; by != 0 {
		if smaller := attempt(shifted(history, 0, -by), v.now-by); smaller != nil {
			return smaller
		}
	}
	last := start
	for i := 0; i <= len(history); i++ {
		at := v.now
		if i < len(history) {
			at = history[i].at
		}
		for _, by := range []int64{at - last, (at - last) / 2, 1} {
			if by <= 0 || by > at-last {
				continue
			}
			if smaller := attempt(shifted(history, i, -by), v.now-by); smaller != nil {
				return smaller
			}
		}
		last = at
	}
	return nil
}

// shifted returns the history with the times of event i and all later events changed.
func shifted(history []event, i int, by int64) []event {
	h := slices.Clone(history)
	for ; i < len(h); i++ {
		h[i].at += by
	}
	return h
}

// replay applies a history to a new key and checks the last state.
func (s *search) replay(history []event, limit algo.Limit, now int64) *violation {
	if now < 0 || now > algo.MaxInstant {
		return nil
	}
	s.checked = visited{}
	n := root()
	for _, e := range history {
		policy, err := s.subject.New(e.limit)
		if err != nil || e.at < 0 || e.at > algo.MaxInstant {
			return nil
		}
		n = s.next(n, policy, e)
	}
	policy, err := s.subject.New(limit)
	if err != nil || !s.law.clockStepsBack && now < n.latest {
		return nil
	}
	return s.check(n, limit, policy, now)
}
