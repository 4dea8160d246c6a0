package observe

import "github.com/sluice-go/sluice/compose"

// Each is an observer that tells every one of observers, in their order. Those
// that are nil are left out; if none is left, Each is nil, and a limiter with that
// for its observer is not slowed down.
func Each(observers ...func(compose.Event)) func(compose.Event) {
	var all []func(compose.Event)
	for _, observer := range observers {
		if observer != nil {
			all = append(all, observer)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return func(e compose.Event) {
		for _, observer := range all {
			observer(e)
		}
	}
}
